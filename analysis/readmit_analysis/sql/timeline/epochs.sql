-- The attempts of one occurrence, in order. Parameter: $occurrence_id.

SELECT
    'epoch ' || coalesce(CAST(epoch AS VARCHAR), '?') || CASE WHEN decision = 'observed' THEN ' (observed)' ELSE '' END
        AS label,
    trace_id, span_id, start_ns, CASE WHEN kind = 'executed' THEN end_ns END AS end_ns, kind, tool,
    effect_state, effect_rule, decision, coalesce(justification, refusal) AS because, came_after,
    permit_source, permit_state, recovery_state, recovery_kind, error_type
FROM epochs
WHERE occurrence_id = $occurrence_id AND start_ns IS NOT NULL
ORDER BY start_ns, span_id
