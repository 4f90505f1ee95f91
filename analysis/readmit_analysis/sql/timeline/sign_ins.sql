-- Sign-ins of a service while something was going on. Parameters: $first_ns, $last_ns, $span_id (one of the attempts).

SELECT s.trace_id, s.span_id, s.start_ns, s.status_code
FROM sends AS s
JOIN tool_calls AS c ON c.span_id = $span_id
WHERE s.login AND s.start_ns BETWEEN $first_ns AND $last_ns AND (s.link = c.link OR s.service = c.service)
ORDER BY s.start_ns
