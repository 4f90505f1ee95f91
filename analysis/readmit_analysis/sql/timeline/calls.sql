-- The executions behind a finding outside readmit, in order. Parameter: $span_ids: executions, or requests below them.

SELECT DISTINCT
    'execution' AS label,
    c.trace_id, c.span_id, c.start_ns, c.end_ns, 'executed' AS kind, c.tool,
    CASE WHEN c.effect_state = 'unseen' THEN CASE WHEN c.failed THEN 'unknown' ELSE 'not seen' END ELSE c.effect_state END
        AS effect_state,
    CAST(NULL AS VARCHAR) AS effect_rule, CAST(NULL AS VARCHAR) AS decision, c.error_type AS because,
    CAST(NULL AS VARCHAR) AS came_after, CAST(NULL AS VARCHAR) AS permit_source, CAST(NULL AS VARCHAR) AS permit_state,
    CASE WHEN c.failed THEN 'suspended' END AS recovery_state,
    CASE WHEN c.failed AND c.challenged = 1 THEN 'challenge' WHEN c.failed THEN 'failure' END AS recovery_kind,
    c.error_type
FROM tool_calls AS c
LEFT JOIN sends AS s ON s.trace_id = c.trace_id AND s.call_span_id = c.span_id
WHERE list_contains($span_ids, c.span_id) OR list_contains($span_ids, s.span_id)
ORDER BY c.start_ns, c.span_id
