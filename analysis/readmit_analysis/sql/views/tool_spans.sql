-- tool_spans: every span of a tool call, and what it is: an execution, a layer around one, or a twin of one.
--
-- layer      a tool span of the same tool inside it is the execution (frameworks, MCP clients and guards nest); if
--            there are several inside, each is an execution and this one is what they have in common
-- twin       equal to another in trace, tool, service, arguments, start and end, to the nanosecond
-- execution  the rest
--
-- Tools match by the last part of their dotted names, unless both spans hold arguments and those differ: then the one
-- calls the other. `outer_span_id` is the outermost span of the same call, `outer_tool` the tool's name there. `guarded`: the span, or a layer around it,
-- is an epoch of readmit; `guarded_inside`: readmit decided about a call below it. Arguments and call id come from the
-- layers where the span has none.

WITH named AS (
    SELECT
        s.trace_id, s.span_id, s.parent_span_id, s.service, s.host, s.instance, s.start_ns, s.end_ns,
        coalesce(s.tool, replace(s.name, 'execute_tool ', '')) AS tool,
        s.readmit_operation,
        s.occurrence_id,
        s.epoch,
        s.status = 'error' OR s.error_type IS NOT NULL AS failed,
        s.error_type, s.status_message,
        CASE WHEN lower(trim(s.call_id)) NOT IN ('', 'unknown', '<not specified>', 'none', 'null') THEN s.call_id END
            AS call_id,
        k.arguments_key,
        CASE WHEN k.arguments_key IS NOT NULL THEN s.arguments END AS arguments
    FROM spans AS s
    LEFT JOIN argument_keys AS k ON k.arguments_type = s.arguments_type AND k.arguments = s.arguments
    WHERE s.trace_id IS NOT NULL AND s.span_id IS NOT NULL AND s.start_ns IS NOT NULL AND s.http_method IS NULL
        AND coalesce(s.readmit_operation, 'execute') = 'execute'
        AND (s.operation = 'execute_tool' OR s.name LIKE 'execute_tool %' OR s.readmit_operation = 'execute'
             OR (s.operation IS NULL AND s.tool IS NOT NULL))
),
short AS (
    SELECT named.*, regexp_replace(tool, '^.*[.]', '') AS tool_key FROM named
),
layers AS (
    SELECT
        i.trace_id, i.span_id AS inner_id, o.span_id AS outer_id, a.depth,
        o.tool AS outer_tool, o.call_id, o.arguments, o.arguments_key, o.readmit_operation,
        row_number() OVER (PARTITION BY i.trace_id, i.span_id ORDER BY a.depth DESC) AS outermost
    FROM short AS i
    JOIN ancestry AS a ON a.trace_id = i.trace_id AND a.span_id = i.span_id
    JOIN short AS o ON o.trace_id = a.trace_id AND o.span_id = a.ancestor_id AND o.tool_key = i.tool_key
    WHERE o.arguments_key IS NULL OR i.arguments_key IS NULL OR o.arguments_key = i.arguments_key
),
above AS (
    SELECT
        trace_id, inner_id, count(*) AS layers,
        max(CASE WHEN outermost = 1 THEN outer_id END) AS outer_span_id,
        max(CASE WHEN outermost = 1 THEN outer_tool END) AS outer_tool,
        max(call_id) AS call_id, max(arguments) AS arguments, max(arguments_key) AS arguments_key,
        max(CASE WHEN readmit_operation IS NOT NULL THEN 1 ELSE 0 END) AS guarded
    FROM layers
    GROUP BY trace_id, inner_id
),
decided AS (
    SELECT DISTINCT a.trace_id, a.ancestor_id AS span_id
    FROM spans AS r
    JOIN ancestry AS a ON a.trace_id = r.trace_id AND a.span_id = r.span_id
    WHERE r.readmit_operation IN ('admit', 'execute')
),
joined AS (
    SELECT
        t.trace_id, t.span_id, t.parent_span_id, t.tool, t.tool_key, t.service, t.host, t.instance,
        t.start_ns, t.end_ns, t.failed, t.error_type, t.status_message, t.readmit_operation, t.occurrence_id, t.epoch,
        coalesce(t.call_id, above.call_id) AS call_id,
        coalesce(t.arguments, above.arguments) AS arguments,
        coalesce(t.arguments_key, above.arguments_key) AS arguments_key,
        coalesce(above.outer_span_id, t.span_id) AS outer_span_id,
        coalesce(above.outer_tool, t.tool) AS outer_tool,
        coalesce(above.layers, 0) AS layers,
        t.readmit_operation IS NOT NULL OR coalesce(above.guarded, 0) = 1 AS guarded,
        decided.span_id IS NOT NULL AS guarded_inside,
        inside.outer_id IS NOT NULL AS is_layer
    FROM short AS t
    LEFT JOIN above ON above.trace_id = t.trace_id AND above.inner_id = t.span_id
    LEFT JOIN decided ON decided.trace_id = t.trace_id AND decided.span_id = t.span_id
    LEFT JOIN (SELECT DISTINCT trace_id, outer_id FROM layers) AS inside
        ON inside.trace_id = t.trace_id AND inside.outer_id = t.span_id
),
twinned AS (
    SELECT
        joined.*,
        min(span_id) OVER (
            PARTITION BY trace_id, tool, service, start_ns, end_ns, arguments_key, call_id, is_layer, epoch
        ) AS first_twin
    FROM joined
)
SELECT
    t.trace_id, t.span_id, t.parent_span_id, t.tool, t.tool_key, t.service, t.host, t.instance, t.start_ns, t.end_ns,
    t.failed, t.error_type, t.status_message, t.readmit_operation, t.occurrence_id, t.epoch, t.call_id, t.arguments,
    t.arguments_key, t.outer_span_id, t.outer_tool, t.layers, t.guarded, t.guarded_inside, t.first_twin,
    CASE
        WHEN t.is_layer THEN 'layer'
        WHEN t.end_ns IS NOT NULL AND t.first_twin <> t.span_id THEN 'twin'
        ELSE 'execution'
    END AS role,
    c.conversation_id, c.link, c.agent_span_id
FROM twinned AS t
JOIN context AS c ON c.trace_id = t.trace_id AND c.span_id = t.span_id
