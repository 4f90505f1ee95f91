-- raw_spans: every span of every file as it was written, copies included; the reader fills it.
-- Nanoseconds are BIGINT. Ids are lower-case hex or NULL. `problem` marks lines, not spans, and is emptied after reading.

CREATE TABLE raw_spans (
    read_path VARCHAR, problem VARCHAR,
    trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, name VARCHAR, kind VARCHAR,
    start_ns BIGINT, end_ns BIGINT, status VARCHAR, status_message VARCHAR,
    scope VARCHAR, service VARCHAR, host VARCHAR, instance VARCHAR,
    attributes STRUCT("key" VARCHAR, "value" STRUCT(
        stringValue VARCHAR, intValue VARCHAR, boolValue VARCHAR, doubleValue VARCHAR, bytesValue VARCHAR,
        arrayValue JSON, kvlistValue JSON))[],
    events JSON, links JSON,
    operation VARCHAR, tool VARCHAR, call_id VARCHAR, arguments VARCHAR, arguments_type VARCHAR,
    conversation_id VARCHAR, input_messages VARCHAR, output_messages VARCHAR, error_type VARCHAR,
    http_method VARCHAR, http_url VARCHAR, http_status INTEGER, resend_count INTEGER, http_peer VARCHAR,
    readmit_operation VARCHAR, occurrence_id VARCHAR, identity VARCHAR, epoch BIGINT, send BIGINT,
    input_digest VARCHAR, contract VARCHAR, mode VARCHAR,
    effect_state VARCHAR, effect_rule VARCHAR, effect_strength VARCHAR,
    recovery_state VARCHAR, recovery_kind VARCHAR,
    permit_source VARCHAR, permit_state VARCHAR, permit_id VARCHAR,
    decision VARCHAR, justification VARCHAR, refusal VARCHAR, admission_id VARCHAR,
    came_after VARCHAR, prior_span_id VARCHAR, from_journal BOOLEAN
);
