-- epochs: one row for each epoch of readmit, with the admission that let it run.
--
-- `kind` executed: the epoch has its span. `kind` admitted_only: the admission was written and the epoch's span never
-- came: the process died, or the span was lost. The effect is unknown then.
-- `state_before` is the occurrence's effect before the decision, as the admission saw it.
-- Reads have no epoch and are not here; an admission as side_effect_free has none either.

WITH admissions AS (
    SELECT
        s.*,
        row_number() OVER (PARTITION BY s.admission_id ORDER BY s.start_ns, s.span_id) AS first_of_id
    FROM spans AS s
    WHERE s.readmit_operation = 'admit' AND s.occurrence_id IS NOT NULL
),
executed AS (
    SELECT s.* FROM spans AS s
    WHERE s.readmit_operation = 'execute' AND s.epoch IS NOT NULL AND s.occurrence_id IS NOT NULL
)
SELECT
    e.occurrence_id, e.epoch, 'executed' AS kind, e.trace_id, e.span_id, e.start_ns, e.end_ns,
    e.tool, e.service, e.host, e.call_id, c.conversation_id, e.identity, e.input_digest, e.contract,
    coalesce(e.mode, a.mode) AS mode,
    coalesce(e.decision, a.decision) AS decision,
    coalesce(e.justification, a.justification) AS justification,
    coalesce(e.refusal, a.refusal) AS refusal,
    coalesce(e.came_after, a.came_after) AS came_after,
    coalesce(e.permit_source, a.permit_source) AS permit_source,
    coalesce(e.permit_state, a.permit_state) AS permit_state,
    coalesce(e.permit_id, a.permit_id) AS permit_id,
    e.recovery_state, e.recovery_kind, e.admission_id, e.prior_span_id,
    a.trace_id AS admit_trace_id, a.span_id AS admit_span_id,
    e.effect_state, e.effect_rule, e.effect_strength, a.effect_state AS state_before,
    e.status = 'error' OR e.error_type IS NOT NULL AS failed, e.error_type, e.from_journal,
    CASE e.effect_state WHEN 'committed' THEN 4 WHEN 'unknown' THEN 3 WHEN 'rejected' THEN 2 WHEN 'not_sent' THEN 1
        ELSE 0 END AS effect_rank
FROM executed AS e
JOIN context AS c ON c.trace_id = e.trace_id AND c.span_id = e.span_id
LEFT JOIN admissions AS a ON a.admission_id = e.admission_id AND a.first_of_id = 1

UNION ALL

SELECT
    a.occurrence_id, a.epoch, 'admitted_only' AS kind, a.trace_id, a.span_id, a.start_ns, a.end_ns,
    a.tool, a.service, a.host, a.call_id, c.conversation_id, a.identity, a.input_digest, a.contract,
    a.mode, a.decision, a.justification, a.refusal, a.came_after, a.permit_source, a.permit_state, a.permit_id,
    a.recovery_state, a.recovery_kind, a.admission_id, a.prior_span_id,
    a.trace_id AS admit_trace_id, a.span_id AS admit_span_id,
    'unknown' AS effect_state, 'trace.no_epoch_span' AS effect_rule, NULL AS effect_strength,
    a.effect_state AS state_before,
    FALSE AS failed, a.error_type, a.from_journal, 3 AS effect_rank
FROM admissions AS a
JOIN context AS c ON c.trace_id = a.trace_id AND c.span_id = a.span_id
LEFT JOIN executed AS e ON e.admission_id = a.admission_id
WHERE a.decision IN ('admit', 'observed') AND e.admission_id IS NULL AND a.first_of_id = 1
    AND coalesce(a.justification, '') <> 'side_effect_free'
