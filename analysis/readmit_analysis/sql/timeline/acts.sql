-- What was decided and done about one occurrence, in order. Parameter: $occurrence_id.

SELECT act, trace_id, span_id, start_ns, decision, refusal, effect_state, recovery_state, recovery_kind,
    permit_source, permit_state
FROM acts
WHERE occurrence_id = $occurrence_id
ORDER BY start_ns, span_id
