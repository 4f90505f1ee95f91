-- epoch_repeats: every epoch that was not the first of its occurrence, with what was known of the earlier ones.
--
-- `prior_rank` folds the earlier epochs: 4 committed, 3 unknown, 2 rejected, 1 not_sent. An epoch counts as earlier if
-- its number is lower, or if it has the same number, another span and an earlier start.
-- `excused`: the admission states a justification, and no earlier epoch refutes it.
-- `settled_before`: a compensation or an authoritative absence was recorded before the decision.

WITH numbered AS (
    SELECT
        e.*,
        row_number() OVER (PARTITION BY occurrence_id ORDER BY epoch, start_ns, span_id) AS position
    FROM epochs AS e
),
pairs AS (
    SELECT
        later.trace_id, later.span_id,
        max(earlier.effect_rank) AS prior_rank,
        count(*) AS earlier_epochs,
        max(CASE WHEN earlier.epoch = later.epoch THEN 1 ELSE 0 END) AS same_number
    FROM numbered AS later
    JOIN numbered AS earlier
        ON earlier.occurrence_id = later.occurrence_id AND earlier.position < later.position
    GROUP BY later.trace_id, later.span_id
)
SELECT
    n.*, p.prior_rank, p.earlier_epochs, p.same_number,
    CASE WHEN n.decision = 'admit' AND n.justification IS NOT NULL
              AND NOT (p.prior_rank = 4 AND n.justification IN ('first_attempt', 'not_sent', 'rejected', 'reconciled_absent'))
              AND NOT (p.prior_rank = 3 AND n.justification = 'first_attempt')
         THEN 1 ELSE 0 END AS excused,
    CASE WHEN n.state_before = 'compensated'
              OR (n.state_before = 'reconciled' AND coalesce(n.refusal, '') <> 'already_committed')
         THEN 1 ELSE 0 END AS settled_before
FROM numbered AS n
JOIN pairs AS p ON p.trace_id = n.trace_id AND p.span_id = n.span_id
WHERE n.kind = 'executed' AND n.position > 1
