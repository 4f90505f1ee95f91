-- unsettled_effect: an effect that is unknown and still open, with its age at the end of these traces.
--
-- From readmit's own spans: the occurrence is unknown and no later reconciliation, compensation, abandonment or committed
-- epoch is here. If there is only the admission and never the epoch's span, the process may have died, or the span may be
-- lost: cannot_tell.
-- From anyone's tool spans: an effectful request below the call got no answer that settles it, and no equal call after it
-- was committed. Likely, since what settled it may be outside of these traces.
--
-- One row for each span of a finding. `age_ns` counts from the end of the attempt to the last span in the files.

WITH the_end AS (
    SELECT max(coalesce(end_ns, start_ns)) AS last_ns FROM spans
),
from_occurrences AS (
    SELECT
        'occurrence ' || o.occurrence_id AS finding,
        CASE WHEN o.unknown_executed = 1 OR o.said_unknown = 1 THEN 'confirmed' ELSE 'cannot_tell' END AS confidence,
        o.occurrence_id, e.tool, e.trace_id, e.span_id, e.start_ns AS position,
        CASE WHEN o.unknown_executed = 1 THEN 'the effect is unknown and nothing later settles it'
             ELSE 'an epoch was admitted and its span never came: the process died, or the span was lost' END AS why,
        CAST(NULL AS VARCHAR) AS justification,
        'no reconciliation, compensation, abandonment or committed epoch follows in these traces' AS not_benign_because,
        CASE WHEN e.kind = 'executed' THEN 'effect: ' || coalesce(e.effect_rule, 'unknown') || ', stated on the epoch span'
             WHEN o.said_unknown = 1 THEN 'a later decision still saw it as unknown'
             ELSE 'a missing span is unknown, never "no effect"' END AS reasons,
        the_end.last_ns - o.unknown_ns AS age_ns
    FROM occurrences AS o
    CROSS JOIN the_end
    JOIN epochs AS e ON e.occurrence_id = o.occurrence_id
    WHERE o.open_unknown = 1 AND e.effect_state = 'unknown'
),
settled_groups AS (
    SELECT DISTINCT group_id FROM call_repeats WHERE effect_state = 'committed'
),
from_calls AS (
    SELECT
        'call ' || coalesce(r.group_id, c.span_id) AS finding, 'likely' AS confidence,
        CAST(NULL AS VARCHAR) AS occurrence_id, c.tool, c.trace_id, c.span_id, c.start_ns AS position,
        'a request may have had its effect, no answer settles it, and no equal call was committed later' AS why,
        CAST(NULL AS VARCHAR) AS justification,
        'nothing in these traces says what became of it' AS not_benign_because,
        'effect: an effectful request got no settling answer | what settled it may be outside of these traces' AS reasons,
        the_end.last_ns - coalesce(c.end_ns, c.start_ns) AS age_ns
    FROM tool_calls AS c
    CROSS JOIN the_end
    LEFT JOIN call_repeats AS r ON r.trace_id = c.trace_id AND r.span_id = c.span_id
    LEFT JOIN settled_groups AS g ON g.group_id = r.group_id
    WHERE NOT c.guarded AND c.effect_state = 'unknown' AND c.lost_answer = 1 AND g.group_id IS NULL
)
SELECT 'unsettled_effect' AS verdict, * FROM from_occurrences
UNION ALL
SELECT 'unsettled_effect' AS verdict, * FROM from_calls
