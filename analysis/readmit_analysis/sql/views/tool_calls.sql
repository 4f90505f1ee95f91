-- tool_calls: one row for each execution of a tool, layers and twins collapsed, with what its requests say.
--
-- `effect_state` of a call outside readmit:
--   committed   a request below it was committed
--   unknown     a request below it may have had its effect; a normal return does not settle that here, since many
--               frameworks hand an error to the model as an ordinary text
--   rejected, not_sent   every effectful request below it was settled as without effect
--   unseen      no request is traced below it: whether it writes is not known
--   NULL        only safe requests below it: it looks like a read
-- `effect_rank` orders them: 3 committed, 2 unknown, 1 unseen, 0 the rest. `succeeded`: no failure was recorded, and
-- nothing below speaks against it.

WITH below AS (
    SELECT
        trace_id, call_span_id,
        sum(CASE WHEN effectful THEN 1 ELSE 0 END) AS effectful_sends,
        count(*) AS sends,
        max(CASE effect_state WHEN 'committed' THEN 4 WHEN 'unknown' THEN 3 WHEN 'rejected' THEN 2
                              WHEN 'not_sent' THEN 1 ELSE 0 END) AS strongest,
        max(CASE WHEN effect_state = 'unknown' AND effect_rule <> 'http.challenge' THEN 1 ELSE 0 END) AS lost_answer,
        max(CASE WHEN status_code IN (401, 403, 407) THEN 1 ELSE 0 END) AS challenged
    FROM sends
    WHERE call_span_id IS NOT NULL
    GROUP BY trace_id, call_span_id
),
called AS (
    SELECT
        t.*,
        coalesce(below.sends, 0) AS sends,
        coalesce(below.effectful_sends, 0) AS effectful_sends,
        coalesce(below.lost_answer, 0) AS lost_answer,
        coalesce(below.challenged, 0) AS challenged,
        CASE
            WHEN below.sends IS NULL THEN 'unseen'
            WHEN below.strongest = 4 THEN 'committed'
            WHEN below.strongest = 3 THEN 'unknown'
            WHEN below.strongest = 2 THEN 'rejected'
            WHEN below.strongest = 1 THEN 'not_sent'
        END AS effect_state
    FROM tool_spans AS t
    LEFT JOIN below ON below.trace_id = t.trace_id AND below.call_span_id = t.span_id
    WHERE t.role = 'execution'
)
SELECT
    trace_id, span_id, parent_span_id, tool, tool_key, service, host, instance, start_ns, end_ns, failed, error_type,
    status_message, call_id, arguments, arguments_key, outer_span_id, outer_tool, layers, conversation_id, link, agent_span_id,
    occurrence_id, epoch,
    guarded OR (guarded_inside AND effectful_sends = 0) AS guarded,
    NOT failed AND coalesce(effect_state, 'read') IN ('committed', 'unseen', 'read') AS succeeded,
    sends, effectful_sends, lost_answer, challenged, effect_state,
    CASE effect_state WHEN 'committed' THEN 3 WHEN 'unknown' THEN 2 WHEN 'unseen' THEN 1 ELSE 0 END AS effect_rank
FROM called
