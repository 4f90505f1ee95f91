-- ancestry: for each span that matters here (tools, models, HTTP clients, ours) every span above it in its trace.
--
-- `depth` 1 is the parent. Parents are the only order that holds across hosts. A trace whose parents form a circle
-- ends at 64 levels.

WITH RECURSIVE climb AS (
    SELECT trace_id, span_id, parent_span_id AS ancestor_id, 1 AS depth
    FROM spans
    WHERE parent_span_id IS NOT NULL AND parent_span_id <> span_id AND trace_id IS NOT NULL
        AND (operation IS NOT NULL OR tool IS NOT NULL OR http_method IS NOT NULL OR readmit_operation IS NOT NULL
             OR occurrence_id IS NOT NULL OR name LIKE 'execute_tool %')
    UNION ALL
    SELECT climb.trace_id, climb.span_id, up.parent_span_id, climb.depth + 1
    FROM climb
    JOIN spans AS up ON up.trace_id = climb.trace_id AND up.span_id = climb.ancestor_id
    WHERE up.parent_span_id IS NOT NULL AND climb.depth < 64
)
SELECT trace_id, span_id, ancestor_id, depth FROM climb
