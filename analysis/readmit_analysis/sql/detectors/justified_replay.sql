-- justified_replay (benign): a repeat with a stated or visible reason that is not authority.
--
-- From readmit's own spans: the admission of a later epoch names its justification, and no earlier epoch refutes it; or in
-- enforce mode a request was sent again under a contract that allows it.
-- From anyone's traces: everything before the repeat was settled as without effect, by its answer or because no connection
-- was made.
--
-- One row for each span of a finding.

WITH from_epochs AS (
    SELECT
        'epoch ' || r.span_id AS finding, 'confirmed' AS confidence, r.occurrence_id, r.tool, e.trace_id, e.span_id,
        e.start_ns AS position,
        'epoch ' || CAST(r.epoch AS VARCHAR) || ' was admitted as ' || r.justification
            || CASE WHEN r.prior_rank = 4 AND r.effect_rank = 4 THEN '; both epochs are committed' ELSE '' END AS why,
        r.justification,
        'stated by the admission' || CASE WHEN r.came_after IS NOT NULL THEN ' | came after: ' || r.came_after ELSE '' END
            AS reasons
    FROM epoch_repeats AS r
    JOIN epochs AS e ON e.occurrence_id = r.occurrence_id AND e.start_ns <= r.start_ns
    WHERE r.excused = 1
),
send_found AS (
    SELECT
        trace_id, group_id, service, method, url, max(tool) AS tool, max(call_occurrence_id) AS occurrence_id,
        max(prior_rank) AS prior_rank, max(mode) AS mode
    FROM send_repeats
    WHERE prior_rank IN (1, 2)
        OR (prior_rank >= 3 AND effect_rank >= 3 AND mode = 'enforce' AND coalesce(contract, '') <> ''
            AND (said_resend = 1 OR (prior_committed = 0 AND prior_unknown = 1)))
    GROUP BY trace_id, group_id, service, method, url
),
from_sends AS (
    SELECT
        'sends ' || f.trace_id || ' ' || f.group_id || ' ' || f.method || ' ' || f.url AS finding, 'likely' AS confidence,
        f.occurrence_id, f.tool, s.trace_id, s.span_id, s.start_ns AS position,
        CASE WHEN f.prior_rank >= 3 THEN 'readmit let the same request pass again under its contract'
             ELSE 'the same request was sent again after one that had no effect' END AS why,
        CASE f.prior_rank WHEN 1 THEN 'not_sent' WHEN 2 THEN 'rejected' ELSE 'contract' END AS justification,
        CASE WHEN f.prior_rank >= 3 THEN 'enforce mode, with a named contract' ELSE 'read from the answer or the error class' END
            AS reasons
    FROM send_found AS f
    JOIN sends AS s
        ON s.trace_id = f.trace_id AND coalesce(s.call_span_id, s.parent_span_id) = f.group_id
        AND coalesce(s.service, '') = coalesce(f.service, '') AND s.method = f.method AND s.url = f.url
),
from_calls AS (
    SELECT
        'calls ' || r.group_id AS finding, 'likely' AS confidence, CAST(NULL AS VARCHAR) AS occurrence_id, c.tool,
        c.trace_id, c.span_id, c.start_ns AS position,
        'the same call ran again after one that had no effect' AS why,
        r.prior_without_effect AS justification,
        'read from the answers or the error classes below the first' AS reasons
    FROM call_repeats AS r
    JOIN call_repeats AS c ON c.group_id = r.group_id AND c.position <= r.position
    WHERE r.begins IS NULL AND r.prior_rank = 0 AND r.prior_without_effect IS NOT NULL AND r.effect_rank >= 1
)
SELECT 'justified_replay' AS verdict, finding, confidence, occurrence_id, tool, trace_id, span_id, position, why,
    justification, CAST(NULL AS VARCHAR) AS not_benign_because, reasons, CAST(NULL AS BIGINT) AS age_ns
FROM from_epochs
UNION ALL
SELECT 'justified_replay' AS verdict, finding, confidence, occurrence_id, tool, trace_id, span_id, position, why,
    justification, CAST(NULL AS VARCHAR) AS not_benign_because, reasons, CAST(NULL AS BIGINT) AS age_ns
FROM from_sends
UNION ALL
SELECT 'justified_replay' AS verdict, finding, confidence, occurrence_id, tool, trace_id, span_id, position, why,
    justification, CAST(NULL AS VARCHAR) AS not_benign_because, reasons, CAST(NULL AS BIGINT) AS age_ns
FROM from_calls
