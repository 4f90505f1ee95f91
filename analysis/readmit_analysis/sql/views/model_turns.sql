-- model_turns: calls to a model. A turn that starts after a tool call succeeded may have seen its result; a repeat
-- after that is the model's wish. A turn that failed asked for nothing.

SELECT
    s.trace_id, s.span_id, s.service, s.host, s.start_ns, s.end_ns,
    c.conversation_id, c.link, c.agent_span_id,
    s.status = 'error' OR s.error_type IS NOT NULL AS failed,
    s.input_messages, s.output_messages
FROM spans AS s
JOIN context AS c ON c.trace_id = s.trace_id AND c.span_id = s.span_id
WHERE s.operation IN ('chat', 'text_completion', 'generate_content')
