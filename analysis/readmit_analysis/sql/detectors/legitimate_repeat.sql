-- legitimate_repeat (benign): an equal call that was wanted again.
--
-- A model turn saw the success of the first one before the second began, or the model's recorded output lists both; or
-- readmit opened a new occurrence, which it does only after the earlier one was settled and delivered.
--
-- One row for each span of a finding.

WITH from_calls AS (
    SELECT
        r.span_id AS second_id, r.begins, r.tool, p.trace_id, p.span_id, p.place
    FROM call_repeats AS r
    JOIN (
        SELECT span_id AS second_id, trace_id AS second_trace, trace_id, span_id, 2 AS place FROM call_repeats
        UNION ALL
        SELECT span_id AS second_id, trace_id AS second_trace, before_trace_id, before_span_id, 1 AS place FROM call_repeats
    ) AS p ON p.second_id = r.span_id AND p.second_trace = r.trace_id
    WHERE r.begins IN ('asked_again', 'asked_twice') AND r.effect_rank >= 1
),
in_order AS (
    SELECT
        o.*,
        lag(occurrence_id) OVER w AS before_id,
        lag(effect_state) OVER w AS before_state,
        lag(last_ns) OVER w AS before_last_ns
    FROM occurrences AS o
    WHERE input_digest IS NOT NULL AND epochs > 0
    WINDOW w AS (PARTITION BY tool, input_digest, service, conversation_id ORDER BY first_ns, occurrence_id)
),
from_occurrences AS (
    SELECT i.occurrence_id AS second_id, e.tool, e.trace_id, e.span_id, e.start_ns, i.occurrence_id
    FROM in_order AS i
    JOIN epochs AS e ON e.occurrence_id IN (i.occurrence_id, i.before_id) AND e.kind = 'executed'
    WHERE i.before_state = 'committed' AND i.mode = 'enforce'
)
SELECT
    'legitimate_repeat' AS verdict,
    'call ' || second_id AS finding,
    'likely' AS confidence,
    CAST(NULL AS VARCHAR) AS occurrence_id, tool, trace_id, span_id, place AS position,
    CASE begins WHEN 'asked_again' THEN 'a model turn saw the success of the first one and asked again'
                ELSE 'one model response lists both calls' END AS why,
    CAST(NULL AS VARCHAR) AS justification,
    CAST(NULL AS VARCHAR) AS not_benign_because,
    'equal tool and arguments, and a wish for each' AS reasons,
    CAST(NULL AS BIGINT) AS age_ns
FROM from_calls
UNION ALL
SELECT
    'legitimate_repeat' AS verdict,
    'occurrence ' || second_id AS finding,
    'confirmed' AS confidence,
    occurrence_id, tool, trace_id, span_id, start_ns AS position,
    'readmit opened a new occurrence after an equal one was committed and delivered' AS why,
    CAST(NULL AS VARCHAR) AS justification,
    CAST(NULL AS VARCHAR) AS not_benign_because,
    'two occurrence ids, one digest' AS reasons,
    CAST(NULL AS BIGINT) AS age_ns
FROM from_occurrences
