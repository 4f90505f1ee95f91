-- id_reuse (benign): one model call id stands for different calls. A call id is never identity by itself.
--
-- Within one conversation or trace the id appears with different tools or different arguments (compared by readmit's
-- digest, or by the arguments on the span).
--
-- One row for each span of a finding.

WITH keyed AS (
    SELECT
        t.link, t.call_id, t.tool, t.trace_id, t.span_id, t.start_ns, t.occurrence_id,
        CASE WHEN e.input_digest IS NOT NULL THEN 'digest' ELSE 'arguments' END AS compared_by,
        t.outer_tool || ' ' || coalesce(e.input_digest, t.arguments_key) AS call_key
    FROM tool_spans AS t
    LEFT JOIN epochs AS e ON e.trace_id = t.trace_id AND e.span_id = t.span_id
    WHERE t.role = 'execution' AND t.call_id IS NOT NULL AND coalesce(e.input_digest, t.arguments_key) IS NOT NULL
),
reused AS (
    SELECT link, call_id, compared_by, count(DISTINCT call_key) AS calls
    FROM keyed
    GROUP BY link, call_id, compared_by
    HAVING count(DISTINCT call_key) > 1
)
SELECT
    'id_reuse' AS verdict,
    'id ' || k.call_id || ' in ' || k.link AS finding,
    'confirmed' AS confidence,
    k.occurrence_id, k.tool, k.trace_id, k.span_id, k.start_ns AS position,
    'one call id stands for ' || CAST(r.calls AS VARCHAR) || ' different calls' AS why,
    CAST(NULL AS VARCHAR) AS justification,
    CAST(NULL AS VARCHAR) AS not_benign_because,
    'the arguments or the tools differ' AS reasons,
    CAST(NULL AS BIGINT) AS age_ns
FROM keyed AS k
JOIN reused AS r ON r.link = k.link AND r.call_id = k.call_id AND r.compared_by = k.compared_by
