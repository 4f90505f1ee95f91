-- acts: what people and policies did about an occurrence, and every decision that started no epoch.

SELECT
    s.occurrence_id, s.readmit_operation AS act, s.trace_id, s.span_id, s.tool, s.start_ns, s.end_ns, s.epoch,
    s.decision, s.justification, s.refusal, s.came_after, s.effect_state, s.effect_rule, s.recovery_state,
    s.recovery_kind, s.permit_source, s.permit_state, s.permit_id, s.admission_id
FROM spans AS s
WHERE s.readmit_operation IS NOT NULL AND s.readmit_operation <> 'execute' AND s.occurrence_id IS NOT NULL
    AND s.start_ns IS NOT NULL
