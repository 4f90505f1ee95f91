-- The requests that belong to some attempts, in order. Parameter: $span_ids, the spans of the attempts, or the requests.

SELECT s.trace_id, s.span_id, s.start_ns, s.end_ns, s.method, s.status_code, s.error_type, s.effectful, s.effect_state,
    s.effect_rule, s.resend_count
FROM sends AS s
WHERE list_contains($span_ids, s.call_span_id) OR list_contains($span_ids, s.span_id)
ORDER BY s.start_ns, s.span_id
