-- call_repeats: executions outside readmit that have the same tool (by its name in the outermost layer) and the same
-- known arguments, put into groups that may be one intent. One row for each execution; `position` counts in its group.
--
-- Two such executions are compared when they share the conversation, or where none is known the trace (`link`). A new
-- group starts (`begins`) when the earlier execution is done with:
--   asked_again   it succeeded, and a model turn started after it and before this one: the model saw the success and
--                 asked for more (not if the provider's call id is the same: a provider does not hand out one id twice)
--   asked_twice   the model's output is recorded and lists this call by its own id
--   clocks        the two overlap only by the clocks of two hosts
--   nothing       it succeeded, and nothing but the equal arguments connects the two
-- Across traces without a conversation, a group goes on only where its last execution may have had its effect, was not
-- answered, and an equal call of the same service follows within ten minutes (`follows_in_time`).
--
-- Evidence that a row repeats the one before it: `after_failure`, `same_call_id`, `same_outer` (both below one span of
-- this tool), `not_asked` (the model's output is recorded and does not list it), `overlapping`, `no_turn` (model turns are
-- traced here, none lies between). `prior_rank` folds the effects before it, as in tool_calls; `prior_weighty`: one of
-- those was committed or lost its answer, so that more than a challenge speaks for an effect.

WITH comparable AS (
    SELECT * FROM tool_calls WHERE NOT guarded AND arguments_key IS NOT NULL
),
reused AS (
    SELECT call_id FROM comparable WHERE call_id IS NOT NULL
    GROUP BY call_id HAVING count(DISTINCT outer_tool || arguments_key) > 1
),
in_order AS (
    SELECT
        c.*,
        lag(trace_id) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_trace_id,
        lag(span_id) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_span_id,
        lag(start_ns) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_start_ns,
        lag(end_ns) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_end_ns,
        lag(succeeded) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_succeeded,
        lag(call_id) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_call_id,
        lag(host) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_host,
        lag(outer_span_id) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_outer,
        lag(agent_span_id) OVER (PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id) AS prev_agent
    FROM comparable AS c
),
turns AS (
    SELECT
        r.trace_id, r.span_id, count(*) AS between,
        max(CASE WHEN m.input_messages IS NOT NULL THEN 1 ELSE 0 END) AS inputs_recorded,
        max(CASE WHEN strpos(m.input_messages, r.prev_call_id) > 0 THEN 1 ELSE 0 END) AS result_read
    FROM in_order AS r
    JOIN model_turns AS m ON m.link = r.link
    WHERE r.prev_span_id IS NOT NULL AND NOT m.failed
        AND m.start_ns >= coalesce(r.prev_end_ns, r.prev_start_ns) AND m.start_ns <= r.start_ns
        AND (m.agent_span_id IS NULL OR r.agent_span_id IS NULL OR m.agent_span_id = r.agent_span_id
             OR m.agent_span_id = r.prev_agent)
    GROUP BY r.trace_id, r.span_id
),
outputs AS (
    SELECT
        r.trace_id, r.span_id,
        max(CASE WHEN strpos(m.output_messages, r.call_id) > 0 THEN 1 ELSE 0 END) AS listed
    FROM in_order AS r
    JOIN model_turns AS m ON m.link = r.link AND m.output_messages IS NOT NULL
    WHERE r.prev_span_id IS NOT NULL AND r.call_id IS NOT NULL
    GROUP BY r.trace_id, r.span_id
),
modelled AS (
    SELECT DISTINCT link FROM model_turns
),
weighed AS (
    SELECT
        r.*,
        CASE WHEN r.call_id = r.prev_call_id THEN 1 ELSE 0 END AS same_call_id,
        CASE WHEN r.call_id = r.prev_call_id AND length(r.call_id) >= 12 AND reused.call_id IS NULL
             THEN 1 ELSE 0 END AS provider_id,
        CASE WHEN r.outer_span_id = r.prev_outer AND r.layers > 0 THEN 1 ELSE 0 END AS same_outer,
        CASE WHEN r.prev_succeeded THEN 0 ELSE 1 END AS after_failure,
        CASE WHEN r.start_ns < r.prev_end_ns THEN 1 ELSE 0 END AS overlapping,
        CASE WHEN r.host <> r.prev_host THEN 1 ELSE 0 END AS two_hosts,
        CASE WHEN outputs.listed = 0 THEN 1 ELSE 0 END AS not_asked,
        CASE WHEN outputs.listed = 1 AND coalesce(r.call_id <> r.prev_call_id, FALSE) THEN 1 ELSE 0 END AS listed,
        CASE WHEN modelled.link IS NOT NULL AND turns.between IS NULL THEN 1 ELSE 0 END AS no_turn,
        CASE WHEN turns.between > 0 AND (turns.inputs_recorded = 0 OR turns.result_read = 1 OR r.prev_call_id IS NULL)
             THEN 1 ELSE 0 END AS turn_saw
    FROM in_order AS r
    LEFT JOIN turns ON turns.trace_id = r.trace_id AND turns.span_id = r.span_id
    LEFT JOIN outputs ON outputs.trace_id = r.trace_id AND outputs.span_id = r.span_id
    LEFT JOIN modelled ON modelled.link = r.link
    LEFT JOIN reused ON reused.call_id = r.call_id
),
begun AS (
    SELECT
        w.*,
        CASE
            WHEN prev_span_id IS NULL THEN 'first'
            WHEN prev_succeeded AND turn_saw = 1 AND provider_id = 0 THEN 'asked_again'
            WHEN prev_succeeded AND listed = 1 AND same_outer = 0 THEN 'asked_twice'
            WHEN two_hosts = 1 AND overlapping = 1 AND same_call_id = 0 AND same_outer = 0 THEN 'clocks'
            WHEN prev_succeeded AND same_call_id = 0 AND same_outer = 0 AND not_asked = 0 AND overlapping = 0 AND no_turn = 0
                THEN 'nothing'
        END AS begins
    FROM weighed AS w
),
segmented AS (
    SELECT
        b.*,
        sum(CASE WHEN begins IS NULL THEN 0 ELSE 1 END) OVER (
            PARTITION BY link, outer_tool, arguments_key ORDER BY start_ns, span_id ROWS UNBOUNDED PRECEDING) AS segment
    FROM begun AS b
),
segments AS (
    SELECT
        link, service, outer_tool, arguments_key, segment,
        min(start_ns) AS first_ns, max(coalesce(end_ns, start_ns)) AS last_ns,
        max(effect_rank) AS effect_rank, max(CASE WHEN succeeded THEN 1 ELSE 0 END) AS any_success
    FROM segmented
    WHERE conversation_id IS NULL
    GROUP BY link, service, outer_tool, arguments_key, segment
),
followed AS (
    SELECT
        s.*,
        CASE WHEN lag(effect_rank) OVER w = 2 AND lag(any_success) OVER w = 0 AND effect_rank >= 2
                  AND first_ns - lag(last_ns) OVER w BETWEEN 0 AND 600000000000
             THEN 1 ELSE 0 END AS follows_in_time
    FROM segments AS s
    WINDOW w AS (PARTITION BY service, outer_tool, arguments_key ORDER BY first_ns, link, segment)
),
clustered AS (
    SELECT
        f.*,
        sum(1 - follows_in_time) OVER (
            PARTITION BY service, outer_tool, arguments_key ORDER BY first_ns, link, segment ROWS UNBOUNDED PRECEDING) AS cluster
    FROM followed AS f
),
grouped AS (
    SELECT
        s.*,
        coalesce(c.follows_in_time, 0) AS follows_in_time,
        CASE WHEN c.cluster IS NULL THEN s.link || ' ' || s.outer_tool || ' ' || s.arguments_key || ' ' || s.segment
             ELSE coalesce(s.service, '') || ' ' || s.outer_tool || ' ' || s.arguments_key || ' ' || c.cluster END AS group_id
    FROM segmented AS s
    LEFT JOIN clustered AS c
        ON s.conversation_id IS NULL AND c.link = s.link AND c.outer_tool = s.outer_tool AND c.arguments_key = s.arguments_key
        AND c.segment = s.segment AND coalesce(c.service, '') = coalesce(s.service, '')
)
SELECT
    g.trace_id, g.span_id, g.tool, g.service, g.host, g.start_ns, g.end_ns, g.failed, g.succeeded, g.error_type,
    g.call_id, g.conversation_id, g.link, g.effect_state, g.effect_rank, g.effectful_sends, g.lost_answer, g.challenged,
    g.prev_trace_id AS before_trace_id, g.prev_span_id AS before_span_id,
    g.begins, g.turn_saw, g.same_call_id, g.same_outer, g.after_failure, g.overlapping, g.two_hosts, g.not_asked, g.no_turn,
    CASE WHEN g.begins = 'first' THEN g.follows_in_time ELSE 0 END AS follows_in_time,
    g.group_id,
    row_number() OVER (PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id) AS position,
    lag(g.trace_id) OVER (PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id) AS prev_trace_id,
    lag(g.span_id) OVER (PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id) AS prev_span_id,
    lag(coalesce(g.end_ns, g.start_ns)) OVER (PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id) AS prev_end_ns,
    lag(g.challenged) OVER (PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id) AS prev_challenged,
    coalesce(max(g.effect_rank) OVER (
        PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS prior_rank,
    coalesce(max(CASE WHEN g.lost_answer = 1 OR g.effect_state = 'committed' THEN 1 ELSE 0 END) OVER (
        PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0)
        AS prior_weighty,
    max(CASE WHEN g.effect_state IN ('rejected', 'not_sent') THEN g.effect_state END) OVER (
        PARTITION BY g.group_id ORDER BY g.start_ns, g.span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        AS prior_without_effect
FROM grouped AS g
