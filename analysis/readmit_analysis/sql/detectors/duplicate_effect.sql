-- duplicate_effect: two executions of one intent, at least one of them without justification.
--
-- From readmit's own spans: an epoch ran (observe mode, or a decision without justification, or one that an earlier
-- epoch refutes) although an earlier epoch of the same occurrence was committed or unknown, and may have had its effect
-- too. Confirmed where two of them are committed.
-- From requests: inside one call the same effectful request left again after one whose effect is not known.
-- From anyone's tool spans: equal tool, equal known arguments, one conversation or trace, and evidence that the second
-- is not a new wish (see views/call_repeats.sql). Likely only if effectful requests were seen below both; a tool that
-- may be a read is cannot_tell.
--
-- One row for each span of a finding.

WITH epochs_found AS (
    SELECT
        occurrence_id,
        max(CASE WHEN prior_rank = 4 AND effect_rank = 4 THEN 1 ELSE 0 END) AS both_committed,
        max(CASE WHEN decision = 'observed' THEN 1 ELSE 0 END) AS observed,
        max(CASE WHEN decision = 'admit' AND justification IS NOT NULL THEN justification END) AS refuted,
        max(same_number) AS same_number,
        max(refusal) AS refusal,
        max(came_after) AS came_after
    FROM epoch_repeats
    WHERE excused = 0 AND settled_before = 0 AND prior_rank >= 3 AND effect_rank >= 3
    GROUP BY occurrence_id
),
from_epochs AS (
    SELECT
        'occurrence ' || f.occurrence_id AS finding,
        CASE WHEN f.both_committed = 1 THEN 'confirmed' ELSE 'likely' END AS confidence,
        f.occurrence_id, e.tool, e.trace_id, e.span_id, e.start_ns AS position,
        CASE WHEN f.both_committed = 1 THEN 'two epochs of one occurrence are committed'
             ELSE 'an epoch ran while an earlier one may have had its effect' END
            || CASE WHEN f.same_number = 1 THEN '; two spans carry one epoch number' ELSE '' END AS why,
        f.refuted AS justification,
        CASE
            WHEN f.refuted IS NOT NULL THEN 'the admission says ' || f.refuted || ', and an earlier epoch refutes it'
            WHEN f.observed = 1 THEN 'observe mode let it run without a justification'
                || CASE WHEN f.refusal IS NOT NULL THEN '; enforce mode would have refused: ' || f.refusal ELSE '' END
            ELSE 'no admission with a justification is in the traces'
        END AS not_benign_because,
        'identity: one readmit.occurrence.id'
            || CASE WHEN f.both_committed = 1 THEN ' | effect: stated on the epoch spans'
                    ELSE ' | effect: at least one epoch is unknown, so it may have happened once' END
            || CASE WHEN f.came_after IS NOT NULL THEN ' | came after: ' || f.came_after ELSE '' END AS reasons
    FROM epochs_found AS f
    JOIN epochs AS e ON e.occurrence_id = f.occurrence_id
    WHERE e.effect_rank >= 3
),
sends_found AS (
    SELECT
        trace_id, group_id, service, method, url,
        max(call_occurrence_id) AS occurrence_id,
        max(tool) AS tool,
        max(CASE WHEN prior_rank = 4 AND effect_rank = 4 THEN 1 ELSE 0 END) AS both_committed,
        max(said_resend) AS said_resend,
        min(only_challenged) AS only_challenged,
        max(CASE WHEN effect_rule = 'http.conflict_after_send' THEN 1 ELSE 0 END) AS collided,
        max(CASE WHEN effect_rule <> 'http.conflict_after_send' THEN 1 ELSE 0 END) AS went_through,
        max(mode) AS mode
    FROM send_repeats
    WHERE prior_rank >= 3 AND effect_rank >= 3
        AND (said_resend = 1 OR (prior_committed = 0 AND prior_unknown = 1))
        AND NOT (coalesce(mode, 'observe') = 'enforce' AND coalesce(contract, '') <> '')
    GROUP BY trace_id, group_id, service, method, url
),
from_sends AS (
    SELECT
        'sends ' || f.trace_id || ' ' || f.group_id || ' ' || f.method || ' ' || f.url AS finding,
        CASE
            WHEN f.both_committed = 1 AND f.said_resend = 1 AND f.occurrence_id IS NOT NULL THEN 'confirmed'
            WHEN f.only_challenged = 1 OR f.went_through = 0 THEN 'cannot_tell'
            ELSE 'likely'
        END AS confidence,
        f.occurrence_id, f.tool, s.trace_id, s.span_id, s.start_ns AS position,
        'one call sent ' || f.method || ' to the same address again after a request whose effect is not known' AS why,
        CAST(NULL AS VARCHAR) AS justification,
        CASE
            WHEN f.only_challenged = 1 THEN 'a challenge does not say whether the service acted before it answered'
            WHEN f.mode = 'observe' THEN 'observe mode let the request pass'
            ELSE 'no answer came that settles the earlier request as without effect'
        END AS not_benign_because,
        'identity: one call, equal method and URL'
            || CASE WHEN f.said_resend = 1 THEN ' | the client counted it as a resend' ELSE ' | it looks like a retry loop' END
            || CASE WHEN f.only_challenged = 1
                    THEN ' | many services check the caller before they act; nothing here says that this one does' ELSE '' END
            || CASE WHEN f.collided = 1
                    THEN ' | the repeat was refused, perhaps because of its own first attempt: the effect may have happened once'
                    ELSE '' END AS reasons
    FROM sends_found AS f
    JOIN sends AS s
        ON s.trace_id = f.trace_id AND coalesce(s.call_span_id, s.parent_span_id) = f.group_id
        AND coalesce(s.service, '') = coalesce(f.service, '') AND s.method = f.method AND s.url = f.url
    WHERE s.effect_state IN ('committed', 'unknown')
),
calls_found AS (
    SELECT
        group_id,
        max(CASE WHEN effect_rank >= 2 AND prior_rank >= 2 AND prior_weighty = 1
                      AND after_failure + same_call_id * (1 - turn_saw) + same_outer + not_asked + follows_in_time > 0
                 THEN 1 ELSE 0 END) AS strong,
        max(CASE WHEN effect_rank >= 2 AND prior_rank >= 2 THEN 1 ELSE 0 END) AS seen,
        max(CASE WHEN effect_rank >= 2 AND prior_rank >= 2 AND prior_weighty = 1 THEN 1 ELSE 0 END) AS weighty,
        max(CASE WHEN begins IS NULL THEN after_failure ELSE follows_in_time END) AS after_failure,
        max(CASE WHEN begins IS NULL THEN same_call_id ELSE 0 END) AS same_call_id,
        max(CASE WHEN begins IS NULL THEN same_outer ELSE 0 END) AS same_outer,
        max(CASE WHEN begins IS NULL THEN not_asked ELSE 0 END) AS not_asked,
        max(CASE WHEN begins IS NULL THEN overlapping ELSE 0 END) AS overlapping,
        max(CASE WHEN begins IS NULL THEN turn_saw ELSE 0 END) AS turn_saw,
        max(follows_in_time) AS follows_in_time
    FROM call_repeats
    WHERE (begins IS NULL OR follows_in_time = 1) AND prior_rank >= 1 AND effect_rank >= 1
    GROUP BY group_id
),
from_calls AS (
    SELECT
        'calls ' || f.group_id AS finding,
        CASE WHEN f.strong = 1 THEN 'likely' ELSE 'cannot_tell' END AS confidence,
        CAST(NULL AS VARCHAR) AS occurrence_id, c.tool, c.trace_id, c.span_id, c.start_ns AS position,
        CASE
            WHEN f.after_failure = 1 THEN 'the same call ran again after one that failed and may have had its effect'
            WHEN f.same_call_id = 1 THEN 'the same call, with the same call id, ran again'
            WHEN f.same_outer = 1 THEN 'the same call ran more than once below one span'
            WHEN f.overlapping = 1 THEN 'the same call ran twice at the same time'
            ELSE 'the same call ran again without a model turn in between'
        END AS why,
        CAST(NULL AS VARCHAR) AS justification,
        CASE
            WHEN f.after_failure = 1 THEN 'no success was there for a model to see, and nothing settled the first attempt'
            WHEN f.not_asked = 1 THEN 'the recorded model output does not list the second call'
            WHEN f.turn_saw = 1 THEN 'a new wish of the model would carry a new call id'
            ELSE 'no model turn saw the success of the first one'
        END AS not_benign_because,
        CASE WHEN f.follows_in_time = 1 THEN 'identity: equal tool, arguments and service, close in time'
             ELSE 'identity: equal tool and arguments in one conversation or trace' END
            || CASE WHEN f.same_call_id = 1 THEN ' | equal call id' ELSE '' END
            || CASE WHEN f.seen = 1 THEN ' | effectful requests were seen below both'
                    ELSE ' | no effectful request was seen below both: the tool may be a read' END
            || CASE WHEN f.seen = 1 AND f.weighty = 0
                    THEN ' | the first was answered by a challenge: many services check the caller before they act' ELSE '' END
            || CASE WHEN f.seen = 1 AND f.weighty = 1 AND f.strong = 0 AND f.turn_saw = 1
                    THEN ' | a model turn lies between: replayed history, or a provider that hands out one id twice'
                    WHEN f.seen = 1 AND f.weighty = 1 AND f.strong = 0
                    THEN ' | one model response may have asked for both' ELSE '' END AS reasons
    FROM calls_found AS f
    JOIN call_repeats AS c ON c.group_id = f.group_id
    WHERE c.effect_rank >= 1
)
SELECT 'duplicate_effect' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_epochs
UNION ALL
SELECT 'duplicate_effect' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_sends
UNION ALL
SELECT 'duplicate_effect' AS verdict, *, CAST(NULL AS BIGINT) AS age_ns FROM from_calls
