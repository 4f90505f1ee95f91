-- layered_spans (benign): several spans tell of one execution of a tool.
--
-- Either one is around the other and nothing else of that tool is inside it (a framework, an MCP client, a guard), or two
-- are equal in everything but the span id, start and end to the nanosecond. Where a span holds several executions of its
-- tool, those are executions, not layers of each other.
--
-- One row for each span of a finding.

WITH around AS (
    SELECT l.trace_id, l.span_id AS layer_id, min(e.span_id) AS execution_id
    FROM tool_spans AS l
    JOIN ancestry AS a ON a.trace_id = l.trace_id AND a.ancestor_id = l.span_id
    JOIN tool_spans AS e
        ON e.trace_id = a.trace_id AND e.span_id = a.span_id AND e.role = 'execution' AND e.tool_key = l.tool_key
    WHERE l.role = 'layer'
    GROUP BY l.trace_id, l.span_id
    HAVING count(*) = 1
),
parts AS (
    SELECT trace_id, execution_id, layer_id AS span_id, 'nested' AS kind FROM around
    UNION ALL
    SELECT trace_id, first_twin AS execution_id, span_id, 'twin' AS kind FROM tool_spans WHERE role = 'twin'
),
found AS (
    SELECT trace_id, execution_id, max(CASE WHEN kind = 'twin' THEN 1 ELSE 0 END) AS twin, count(*) AS others
    FROM parts
    GROUP BY trace_id, execution_id
),
members AS (
    SELECT trace_id, execution_id, span_id FROM parts
    UNION ALL
    SELECT trace_id, execution_id, execution_id AS span_id FROM found
)
SELECT
    'layered_spans' AS verdict,
    'execution ' || m.execution_id AS finding,
    CASE WHEN f.twin = 0 THEN 'confirmed' WHEN t.end_ns > t.start_ns THEN 'likely' ELSE 'cannot_tell' END AS confidence,
    t.occurrence_id, t.tool, m.trace_id, m.span_id, t.start_ns AS position,
    CASE WHEN f.twin = 1 THEN 'equal to the nanosecond: one execution, recorded more than once'
         ELSE 'nested spans of one execution' END AS why,
    CAST(NULL AS VARCHAR) AS justification,
    CAST(NULL AS VARCHAR) AS not_benign_because,
    CASE WHEN f.twin = 1 THEN 'start and end agree to the nanosecond on one service' ELSE 'the one is inside the other' END
        AS reasons,
    CAST(NULL AS BIGINT) AS age_ns
FROM members AS m
JOIN found AS f ON f.trace_id = m.trace_id AND f.execution_id = m.execution_id
JOIN tool_spans AS t ON t.trace_id = m.trace_id AND t.span_id = m.span_id
