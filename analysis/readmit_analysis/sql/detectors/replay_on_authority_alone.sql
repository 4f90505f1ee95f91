-- replay_on_authority_alone: a new epoch after a login or an approval while the effect of the earlier one was unknown.
-- New authority says who may act now; it says nothing about what already happened.
--
-- From readmit's own spans: an epoch that came after a login or an approval ran without a justification of its own while
-- the occurrence was unknown. That is what happened, so it is confirmed.
-- From anyone's traces: an effectful call or request may have had its effect, a sign-in was seen in the same conversation
-- or trace, and the same went out again (likely). After nothing but a challenge it is cannot_tell, since many services
-- check the caller before they act; so it is if the sign-in only shares the service, where it may be someone else's.
--
-- One row for each span of a finding.

WITH epochs_found AS (
    SELECT * FROM epoch_repeats
    WHERE came_after IN ('login', 'approval') AND excused = 0 AND settled_before = 0
        AND coalesce(state_before, CASE WHEN prior_rank = 3 THEN 'unknown' END) = 'unknown'
),
from_epochs AS (
    SELECT
        'epoch ' || f.span_id AS finding, 'confirmed' AS confidence, f.occurrence_id, f.tool, p.trace_id, p.span_id,
        p.start_ns AS position,
        'epoch ' || CAST(f.epoch AS VARCHAR) || ' ran after ' || CASE f.came_after WHEN 'login' THEN 'a login' ELSE 'an approval' END
            || ' while the effect of the earlier epoch was unknown' AS why,
        CAST(NULL AS VARCHAR) AS justification,
        CASE WHEN f.decision = 'observed' THEN 'observe mode let it run; authority is no justification for a repeat'
             ELSE 'no justification beside the new authority is in the traces' END AS not_benign_because,
        'identity: one readmit.occurrence.id | came after: ' || f.came_after
            || CASE WHEN f.effect_rank IN (1, 2) THEN ' | this epoch itself had no effect: ' || f.effect_state ELSE '' END
            AS reasons
    FROM epochs_found AS f
    JOIN (
        SELECT occurrence_id, trace_id, span_id, start_ns FROM epochs
        UNION ALL
        SELECT occurrence_id, trace_id, span_id, start_ns FROM acts WHERE act IN ('login', 'approve')
    ) AS p ON p.occurrence_id = f.occurrence_id AND p.start_ns <= f.start_ns
),
sign_ins AS (
    SELECT trace_id, span_id, link, service, start_ns FROM sends WHERE login AND status_code BETWEEN 200 AND 299
    UNION ALL
    SELECT s.trace_id, s.span_id, c.link, s.service, s.start_ns
    FROM spans AS s
    JOIN context AS c ON c.trace_id = s.trace_id AND c.span_id = s.span_id
    WHERE s.readmit_operation = 'login'
),
calls_found AS (
    SELECT
        r.trace_id, r.span_id, r.tool, r.start_ns, r.prev_trace_id, r.prev_span_id, r.prior_weighty,
        min(i.start_ns) AS sign_in_ns,
        max(CASE WHEN i.link = r.link THEN 1 ELSE 0 END) AS linked
    FROM call_repeats AS r
    LEFT JOIN sign_ins AS i
        ON (i.link = r.link OR i.service = r.service) AND i.start_ns BETWEEN r.prev_end_ns AND r.start_ns
    WHERE (r.begins IS NULL OR r.follows_in_time = 1) AND r.prior_rank = 2 AND r.effect_rank >= 2
        AND (i.span_id IS NOT NULL OR r.prev_challenged = 1)
    GROUP BY r.trace_id, r.span_id, r.tool, r.start_ns, r.prev_trace_id, r.prev_span_id, r.prior_weighty
),
call_spans AS (
    SELECT c.*, c.trace_id AS t, c.span_id AS s, 3 AS place FROM calls_found AS c
    UNION ALL
    SELECT c.*, c.prev_trace_id AS t, c.prev_span_id AS s, 1 AS place FROM calls_found AS c
    UNION ALL
    SELECT c.*, i.trace_id AS t, i.span_id AS s, 2 AS place
    FROM calls_found AS c
    JOIN sign_ins AS i ON i.start_ns = c.sign_in_ns
),
from_calls AS (
    SELECT
        'call ' || span_id AS finding,
        CASE WHEN linked = 1 AND prior_weighty = 1 THEN 'likely' ELSE 'cannot_tell' END AS confidence,
        CAST(NULL AS VARCHAR) AS occurrence_id, tool, t AS trace_id, s AS span_id, place AS position,
        CASE WHEN sign_in_ns IS NOT NULL THEN 'after a sign-in the same call went out again, and the first may have had its effect'
             ELSE 'after a challenge the same call went out again' END AS why,
        CAST(NULL AS VARCHAR) AS justification,
        'nothing between the two says what became of the first' AS not_benign_because,
        'identity: equal tool and arguments'
            || CASE WHEN sign_in_ns IS NULL THEN ' | no sign-in was seen'
                    WHEN linked = 1 THEN ' | a sign-in of the same conversation or trace lies between'
                    ELSE ' | a sign-in of the same service lies between; it may be someone else''s' END
            || CASE WHEN prior_weighty = 1 THEN ' | the first got no answer that settles it'
                    ELSE ' | the first was answered by a challenge: many services check the caller before they act' END AS reasons
    FROM call_spans
),
sends_found AS (
    SELECT
        r.trace_id, r.span_id, r.tool, r.group_id, r.service, r.method, r.url, r.start_ns, r.prior_lost,
        r.call_occurrence_id, min(i.start_ns) AS sign_in_ns,
        max(CASE WHEN i.link = r.link THEN 1 ELSE 0 END) AS linked
    FROM send_repeats AS r
    LEFT JOIN sign_ins AS i
        ON (i.link = r.link OR i.service = r.service) AND i.start_ns BETWEEN r.first_ns AND r.start_ns
    WHERE r.prior_rank = 3 AND r.effect_rank >= 3 AND r.prior_committed = 0
        AND NOT (coalesce(r.mode, 'observe') = 'enforce' AND coalesce(r.contract, '') <> '')
        AND (r.prior_challenged = 1 OR i.span_id IS NOT NULL)
    GROUP BY r.trace_id, r.span_id, r.tool, r.group_id, r.service, r.method, r.url, r.start_ns, r.prior_lost,
        r.call_occurrence_id
),
from_sends AS (
    SELECT
        'send ' || f.span_id AS finding,
        CASE WHEN f.linked = 1 AND f.prior_lost = 1 THEN 'likely' ELSE 'cannot_tell' END AS confidence,
        f.call_occurrence_id AS occurrence_id, f.tool, s.trace_id, s.span_id, s.start_ns AS position,
        'inside one call the same request went out again after a challenge or a sign-in' AS why,
        CAST(NULL AS VARCHAR) AS justification,
        'nothing between the two says what became of the first' AS not_benign_because,
        'identity: one call, equal method and URL'
            || CASE WHEN f.sign_in_ns IS NULL THEN ' | no sign-in was seen'
                    WHEN f.linked = 1 THEN ' | a sign-in of the same conversation or trace lies between'
                    ELSE ' | a sign-in of the same service lies between; it may be someone else''s' END
            || CASE WHEN f.prior_lost = 1 THEN ' | an earlier request got no answer that settles it'
                    ELSE ' | the earlier one was answered by a challenge: many services check the caller before they act' END
            AS reasons
    FROM sends_found AS f
    JOIN sends AS s
        ON s.trace_id = f.trace_id AND coalesce(s.call_span_id, s.parent_span_id) = f.group_id
        AND coalesce(s.service, '') = coalesce(f.service, '') AND s.method = f.method AND s.url = f.url
        AND s.start_ns <= f.start_ns
    WHERE s.effect_state IN ('committed', 'unknown')
)
SELECT 'replay_on_authority_alone' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_epochs
UNION ALL
SELECT 'replay_on_authority_alone' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_calls
UNION ALL
SELECT 'replay_on_authority_alone' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_sends
