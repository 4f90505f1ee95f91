-- send_repeats: effectful requests that repeat an earlier one with the same method and URL inside the same call.
--
-- Equal URLs alone prove nothing: a tool may post ten different messages to one address. A repeat counts where the
-- client says so (`http.request.resend_count`) or where every earlier request went without an answer that settles it,
-- as a retry loop looks. `prior_rank`: 4 committed, 3 unknown, 2 rejected, 1 not_sent. `only_challenged`: the unknown
-- ones before were all answered by 401, 403 or 407.

WITH grouped AS (
    SELECT
        s.*,
        coalesce(call_span_id, parent_span_id) AS group_id,
        CASE effect_state WHEN 'committed' THEN 4 WHEN 'unknown' THEN 3 WHEN 'rejected' THEN 2 WHEN 'not_sent' THEN 1
            ELSE 0 END AS effect_rank
    FROM sends AS s
    WHERE effectful AND url IS NOT NULL AND coalesce(call_span_id, parent_span_id) IS NOT NULL
),
in_order AS (
    SELECT
        g.*,
        row_number() OVER w AS position,
        max(effect_rank) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prior_rank,
        sum(CASE WHEN effect_rank = 4 THEN 1 ELSE 0 END) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS prior_committed,
        max(CASE WHEN effect_rank = 3 THEN 1 ELSE 0 END) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
            AS prior_unknown,
        max(CASE WHEN effect_rank = 3 AND effect_rule <> 'http.challenge' THEN 1 ELSE 0 END)
            OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prior_lost,
        max(CASE WHEN status_code IN (401, 403, 407) THEN 1 ELSE 0 END)
            OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS prior_challenged,
        max(effect_rule) OVER (w ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING) AS prior_rule,
        min(start_ns) OVER (w ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first_ns
    FROM grouped AS g
    WINDOW w AS (PARTITION BY trace_id, group_id, service, method, url ORDER BY start_ns, span_id)
)
SELECT
    r.*,
    CASE WHEN prior_lost = 0 AND prior_challenged = 1 THEN 1 ELSE 0 END AS only_challenged,
    CASE WHEN resend_count > 0 THEN 1 ELSE 0 END AS said_resend,
    t.tool, t.occurrence_id AS call_occurrence_id, e.mode, e.contract, e.decision
FROM in_order AS r
LEFT JOIN tool_spans AS t ON t.trace_id = r.trace_id AND t.span_id = r.call_span_id
LEFT JOIN epochs AS e ON e.trace_id = r.trace_id AND e.span_id = r.call_span_id
WHERE r.position > 1
