-- context: in which conversation, and in the run of which agent, a span took place.
--
-- The conversation id is the span's own, else that of the nearest span above it, else the only one in its trace.
-- `link` is what two calls must share before they are compared: the conversation, or where none is known the trace.

WITH above AS (
    SELECT
        a.trace_id, a.span_id, up.conversation_id,
        row_number() OVER (PARTITION BY a.trace_id, a.span_id ORDER BY a.depth) AS nearest
    FROM ancestry AS a
    JOIN spans AS up ON up.trace_id = a.trace_id AND up.span_id = a.ancestor_id
    WHERE up.conversation_id IS NOT NULL
),
agents AS (
    SELECT
        a.trace_id, a.span_id, up.span_id AS agent_span_id,
        row_number() OVER (PARTITION BY a.trace_id, a.span_id ORDER BY a.depth) AS nearest
    FROM ancestry AS a
    JOIN spans AS up ON up.trace_id = a.trace_id AND up.span_id = a.ancestor_id
    WHERE up.operation = 'invoke_agent'
),
whole_trace AS (
    SELECT trace_id, min(conversation_id) AS conversation_id
    FROM spans
    WHERE conversation_id IS NOT NULL AND trace_id IS NOT NULL
    GROUP BY trace_id
    HAVING min(conversation_id) = max(conversation_id)
),
found AS (
    SELECT
        s.trace_id, s.span_id, agents.agent_span_id,
        coalesce(s.conversation_id, above.conversation_id, whole_trace.conversation_id) AS conversation_id
    FROM spans AS s
    LEFT JOIN above ON above.trace_id = s.trace_id AND above.span_id = s.span_id AND above.nearest = 1
    LEFT JOIN agents ON agents.trace_id = s.trace_id AND agents.span_id = s.span_id AND agents.nearest = 1
    LEFT JOIN whole_trace ON whole_trace.trace_id = s.trace_id
    WHERE s.trace_id IS NOT NULL AND s.span_id IS NOT NULL
        AND (s.operation IS NOT NULL OR s.tool IS NOT NULL OR s.http_method IS NOT NULL
             OR s.readmit_operation IS NOT NULL OR s.occurrence_id IS NOT NULL OR s.name LIKE 'execute_tool %')
)
SELECT
    trace_id, span_id, agent_span_id, conversation_id,
    CASE WHEN conversation_id IS NOT NULL THEN 'conversation ' || conversation_id ELSE 'trace ' || trace_id END AS link
FROM found
