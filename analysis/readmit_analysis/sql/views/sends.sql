-- sends: HTTP requests that left a client, with the call they belong to and what they say about the effect.
--
-- Layers are collapsed: a client span inside another one with the same method and URL is the request; the outer one is
-- the same request seen higher up. A span of another service below a server span belongs to that service, not to the
-- call. Requests of a model client belong to the model.
--
-- `effectful` is the method's word (RFC 9110, 9.2.1), unless a contract said that the request reads; sign-in and token
-- requests take no part. `effect_state` is
-- readmit's where it says so, else it follows readmit's table for HTTP; error classes stand for the failure position,
-- which a foreign trace does not hold. A 4xx that answers a repeat after an unknown send is unknown: it may have
-- collided with its own first attempt.

WITH clients AS (
    SELECT
        s.*,
        c.conversation_id AS found_conversation, c.link
    FROM spans AS s
    JOIN context AS c ON c.trace_id = s.trace_id AND c.span_id = s.span_id
    WHERE s.http_method IS NOT NULL AND coalesce(s.kind, 'client') NOT IN ('server', 'consumer')
        AND s.start_ns IS NOT NULL
),
layers AS (
    SELECT DISTINCT o.trace_id, o.span_id
    FROM clients AS i
    JOIN ancestry AS a ON a.trace_id = i.trace_id AND a.span_id = i.span_id
    JOIN clients AS o ON o.trace_id = a.trace_id AND o.span_id = a.ancestor_id
    WHERE o.http_method = i.http_method AND o.http_url = i.http_url
        AND coalesce(o.service, '') = coalesce(i.service, '')
),
owners AS (
    SELECT trace_id, span_id, service, 'tool' AS kind, CASE WHEN role = 'twin' THEN first_twin ELSE span_id END AS owner_id
    FROM tool_spans
    UNION ALL
    SELECT trace_id, span_id, service, 'model' AS kind, span_id AS owner_id FROM model_turns
),
owned AS (
    SELECT
        s.trace_id, s.span_id, o.kind, o.owner_id,
        row_number() OVER (PARTITION BY s.trace_id, s.span_id ORDER BY a.depth) AS nearest
    FROM clients AS s
    JOIN ancestry AS a ON a.trace_id = s.trace_id AND a.span_id = s.span_id
    JOIN owners AS o ON o.trace_id = a.trace_id AND o.span_id = a.ancestor_id
    WHERE coalesce(o.service, '') = coalesce(s.service, '')
),
judged AS (
    SELECT
        s.trace_id, s.span_id, s.parent_span_id, s.service, s.host, s.start_ns, s.end_ns,
        owned.owner_id AS call_span_id,
        s.http_method AS method, s.http_url AS url, s.http_status AS status_code, s.error_type, s.resend_count,
        s.http_peer = 'login' AS login,
        s.http_method IN ('POST', 'PUT', 'PATCH', 'DELETE') AND coalesce(s.http_peer, 'service') = 'service'
            AND coalesce(s.effect_rule, '') NOT IN ('http.declared_read', 'http.safe_method') AS effectful,
        s.occurrence_id, s.epoch, s.send, s.found_conversation AS conversation_id, s.link,
        s.effect_rule AS stated_rule, s.effect_strength,
        s.effect_state AS stated,
        CASE
            WHEN s.http_status BETWEEN 200 AND 299 THEN 'http.2xx'
            WHEN s.http_status IN (401, 403, 407) THEN 'http.challenge'
            WHEN s.http_status IN (400, 402, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 421, 422, 425, 426, 428,
                                   429, 431, 451, 501) THEN 'http.4xx'
            WHEN s.http_status IS NOT NULL THEN 'http.other'
            WHEN s.error_type LIKE '%ConnectError' OR s.error_type LIKE '%ConnectTimeout'
                OR s.error_type LIKE '%PoolTimeout' OR s.error_type LIKE '%ConnectionRefusedError'
                OR s.error_type LIKE '%gaierror' OR s.error_type LIKE '%NewConnectionError'
                OR s.error_type LIKE '%ClientConnectorError' THEN 'http.not_connected'
            ELSE 'http.no_response'
        END AS seen_rule
    FROM clients AS s
    LEFT JOIN layers ON layers.trace_id = s.trace_id AND layers.span_id = s.span_id
    LEFT JOIN owned ON owned.trace_id = s.trace_id AND owned.span_id = s.span_id AND owned.nearest = 1
    WHERE layers.span_id IS NULL AND coalesce(owned.kind, 'tool') = 'tool'
),
first_words AS (
    SELECT
        judged.*,
        CASE seen_rule
            WHEN 'http.2xx' THEN 'committed'
            WHEN 'http.4xx' THEN 'rejected'
            WHEN 'http.not_connected' THEN 'not_sent'
            ELSE 'unknown'
        END AS seen
    FROM judged
),
in_order AS (
    SELECT
        first_words.*,
        max(CASE WHEN coalesce(stated, seen) = 'unknown' THEN 1 ELSE 0 END) OVER (
            PARTITION BY trace_id, call_span_id, parent_span_id, method, url
            ORDER BY start_ns, span_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS after_unknown
    FROM first_words
)
SELECT
    trace_id, span_id, parent_span_id, call_span_id, service, host, start_ns, end_ns, method, url, status_code,
    error_type, resend_count, login, effectful, occurrence_id, epoch, send, conversation_id, link,
    CASE
        WHEN NOT effectful THEN NULL
        WHEN stated IS NOT NULL THEN stated
        WHEN status_code BETWEEN 400 AND 499 AND after_unknown = 1 THEN 'unknown'
        ELSE seen
    END AS effect_state,
    CASE
        WHEN NOT effectful THEN 'http.safe_method'
        WHEN stated IS NOT NULL THEN coalesce(stated_rule, seen_rule)
        WHEN status_code BETWEEN 400 AND 499 AND after_unknown = 1 AND seen_rule <> 'http.challenge'
            THEN 'http.conflict_after_send'
        ELSE seen_rule
    END AS effect_rule,
    effect_strength
FROM in_order
