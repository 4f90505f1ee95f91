-- occurrences: one row for each occurrence of readmit, its epochs folded.
--
-- Folding: any committed epoch, else any unknown, else rejected, else not_sent; a reconciliation or a compensation
-- stands in for the epochs before it. `open_unknown` is 1 while the effect is unknown and nothing later settled it: no
-- reconciliation, no compensation, no abandonment, no later admission that knew better.

WITH folded AS (
    SELECT
        occurrence_id,
        min(tool) AS tool, min(service) AS service, min(conversation_id) AS conversation_id,
        min(identity) AS identity, min(input_digest) AS input_digest,
        max(mode) AS mode,
        sum(CASE WHEN kind = 'executed' THEN 1 ELSE 0 END) AS epochs,
        sum(CASE WHEN kind = 'admitted_only' THEN 1 ELSE 0 END) AS admitted_only,
        max(effect_rank) AS effect_rank,
        max(CASE WHEN effect_state = 'unknown' THEN coalesce(end_ns, start_ns) END) AS unknown_ns,
        max(CASE WHEN effect_state = 'unknown' AND kind = 'executed' THEN 1 ELSE 0 END) AS unknown_executed,
        min(start_ns) AS first_ns, max(coalesce(end_ns, start_ns)) AS last_epoch_ns
    FROM epochs
    GROUP BY occurrence_id
),
settled AS (
    SELECT
        a.occurrence_id,
        max(CASE WHEN a.act = 'compensate' AND coalesce(a.effect_state, '') <> 'unknown' THEN a.start_ns END)
            AS compensated_ns,
        max(CASE WHEN a.act = 'reconcile' AND coalesce(a.effect_state, '') <> 'unknown' THEN a.start_ns END)
            AS reconciled_ns,
        max(CASE WHEN a.act = 'abandon' THEN a.start_ns END) AS abandoned_ns,
        max(CASE WHEN a.act = 'admit' AND a.effect_state IN ('committed', 'reconciled', 'compensated', 'rejected', 'not_sent')
                 THEN a.start_ns END) AS known_ns,
        max(CASE WHEN a.act = 'admit' AND a.effect_state = 'unknown' THEN a.start_ns END) AS said_unknown_ns,
        max(coalesce(a.end_ns, a.start_ns)) AS last_act_ns
    FROM acts AS a
    GROUP BY a.occurrence_id
)
SELECT
    f.occurrence_id, f.tool, f.service, f.conversation_id, f.identity, f.input_digest, f.mode, f.epochs,
    f.admitted_only, f.unknown_ns, f.unknown_executed, f.first_ns,
    CASE WHEN s.last_act_ns > f.last_epoch_ns THEN s.last_act_ns ELSE f.last_epoch_ns END AS last_ns,
    CASE
        WHEN s.compensated_ns >= f.last_epoch_ns THEN 'compensated'
        WHEN s.reconciled_ns >= f.last_epoch_ns THEN 'reconciled'
        WHEN f.effect_rank = 4 THEN 'committed'
        WHEN f.effect_rank = 3 THEN 'unknown'
        WHEN f.effect_rank = 2 THEN 'rejected'
        WHEN f.effect_rank = 1 THEN 'not_sent'
    END AS effect_state,
    CASE WHEN s.abandoned_ns IS NOT NULL THEN 1 ELSE 0 END AS abandoned,
    CASE WHEN s.said_unknown_ns >= f.unknown_ns THEN 1 ELSE 0 END AS said_unknown,
    CASE
        WHEN f.effect_rank = 3
            AND coalesce(s.compensated_ns, 0) < f.unknown_ns AND coalesce(s.reconciled_ns, 0) < f.unknown_ns
            AND coalesce(s.abandoned_ns, 0) < f.unknown_ns AND coalesce(s.known_ns, 0) <= f.unknown_ns
        THEN 1 ELSE 0
    END AS open_unknown
FROM folded AS f
LEFT JOIN settled AS s ON s.occurrence_id = f.occurrence_id
