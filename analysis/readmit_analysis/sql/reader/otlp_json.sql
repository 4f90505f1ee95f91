-- OTLP JSON, one document a line, into raw_spans: one row for every span as it was written, copies included.
--
-- Parameters: $paths (list of text), $shape (type of a document, see _shape.py), $compression, $max_object (bytes).
-- The type of every field is stated, so nothing is inferred from the first records and cast later.
-- A line that is no JSON, or JSON of another kind, becomes one row with `problem` set; the caller then reads
-- that file again the careful way, which names the line.

INSERT INTO raw_spans BY NAME
WITH lines AS (
    SELECT filename AS read_path, json IS NULL AS torn, from_json(json, $shape) AS doc
    FROM read_ndjson_objects($paths, ignore_errors = true, filename = true,
                             compression = $compression, maximum_object_size = $max_object)
),
documents AS (
    SELECT
        read_path,
        list_concat(doc.resourceSpans, doc.batches) AS resources,
        CASE
            WHEN torn THEN 'torn'
            WHEN doc.resourceSpans IS NULL AND doc.batches IS NULL THEN 'foreign'
        END AS problem
    FROM lines
),
resources AS (
    SELECT read_path, problem, unnest(CASE WHEN problem IS NULL THEN resources ELSE [NULL] END) AS r
    FROM documents
),
scopes AS (
    SELECT
        read_path, problem,
        attribute(r.resource.attributes, 'service.name') AS service,
        coalesce(attribute(r.resource.attributes, 'host.name'), attribute(r.resource.attributes, 'host.id')) AS host,
        attribute(r.resource.attributes, 'service.instance.id') AS instance,
        unnest(CASE WHEN problem IS NULL THEN list_concat(r.scopeSpans, r.instrumentationLibrarySpans)
                    ELSE [NULL] END) AS s
    FROM resources
),
spans AS (
    SELECT
        read_path, problem, service, host, instance,
        coalesce(s.scope.name, s.instrumentationLibrary.name) AS scope,
        unnest(CASE WHEN problem IS NULL THEN s.spans ELSE [NULL] END) AS p
    FROM scopes
),
keyed AS (
    SELECT
        *,
        list_transform(p.attributes, lambda a: a.key) AS k,
        list_transform(p.attributes, lambda a: attribute_text(a.value)) AS v
    FROM spans
),
named AS (
    SELECT
        read_path,
        problem,
        hex_id(p.traceId, 16) AS trace_id,
        hex_id(p.spanId, 8) AS span_id,
        hex_id(p.parentSpanId, 8) AS parent_span_id,
        p.name AS name,
        CASE p.kind
            WHEN '1' THEN 'internal' WHEN '2' THEN 'server' WHEN '3' THEN 'client'
            WHEN '4' THEN 'producer' WHEN '5' THEN 'consumer'
            WHEN '0' THEN 'unspecified'
            ELSE lower(replace(p.kind, 'SPAN_KIND_', ''))
        END AS kind,
        nanoseconds(p.startTimeUnixNano) AS start_ns,
        nanoseconds(p.endTimeUnixNano) AS end_ns,
        CASE
            WHEN p.status.code IN ('2', 'STATUS_CODE_ERROR', 'Error', 'ERROR') THEN 'error'
            WHEN p.status.code IN ('1', 'STATUS_CODE_OK', 'Ok', 'OK') THEN 'ok'
            ELSE 'unset'
        END AS status,
        p.status.message AS status_message,
        scope,
        service, host, instance,
        p.attributes AS attributes,
        p.events AS events,
        p.links AS links,
        picked(k, v, 'gen_ai.operation.name') AS operation,
        picked(k, v, 'gen_ai.tool.name') AS tool,
        picked(k, v, 'gen_ai.tool.call.id') AS call_id,
        coalesce(list_position(k, 'gen_ai.tool.call.arguments'), list_position(k, 'tool_arguments')) AS arguments_at,
        picked(k, v, 'gen_ai.conversation.id') AS conversation_id,
        picked(k, v, 'gen_ai.input.messages') AS input_messages,
        picked(k, v, 'gen_ai.output.messages') AS output_messages,
        coalesce(picked(k, v, 'error.type'), nullif(regexp_extract(
            p.events::VARCHAR, '"exception[.]type","value":\{"stringValue":"([^"]+)"', 1), '')) AS error_type,
        upper(coalesce(picked(k, v, 'http.request.method'), picked(k, v, 'http.method'))) AS http_method,
        coalesce(picked(k, v, 'url.full'), picked(k, v, 'http.url')) AS http_url,
        try_cast(coalesce(picked(k, v, 'http.response.status_code'), picked(k, v, 'http.status_code'))
                 AS INTEGER) AS http_status,
        try_cast(picked(k, v, 'http.request.resend_count') AS INTEGER) AS resend_count,
        picked(k, v, 'readmit.operation') AS readmit_operation,
        picked(k, v, 'readmit.occurrence.id') AS occurrence_id,
        picked(k, v, 'readmit.identity') AS identity,
        try_cast(picked(k, v, 'readmit.epoch') AS BIGINT) AS epoch,
        try_cast(picked(k, v, 'readmit.send') AS BIGINT) AS send,
        picked(k, v, 'readmit.input.digest') AS input_digest,
        picked(k, v, 'readmit.contract') AS contract,
        picked(k, v, 'readmit.mode') AS mode,
        picked(k, v, 'readmit.effect.state') AS effect_state,
        picked(k, v, 'readmit.effect.rule') AS effect_rule,
        picked(k, v, 'readmit.effect.strength') AS effect_strength,
        picked(k, v, 'readmit.recovery.state') AS recovery_state,
        picked(k, v, 'readmit.recovery.kind') AS recovery_kind,
        picked(k, v, 'readmit.permit.source') AS permit_source,
        picked(k, v, 'readmit.permit.state') AS permit_state,
        picked(k, v, 'readmit.permit.id') AS permit_id,
        picked(k, v, 'readmit.admission.decision') AS decision,
        picked(k, v, 'readmit.admission.justification') AS justification,
        picked(k, v, 'readmit.admission.refusal') AS refusal,
        picked(k, v, 'readmit.admission.id') AS admission_id,
        picked(k, v, 'readmit.trigger') AS came_after,
        picked(k, v, 'readmit.prior_epoch.span_id') AS prior_span_id,
        coalesce(picked(k, v, 'readmit.from_journal') = 'true', false) AS from_journal,
        v, p
    FROM keyed
)
SELECT
    * EXCLUDE (v, p, arguments_at),
    v[arguments_at] AS arguments,
    attribute_type(p.attributes[arguments_at].value) AS arguments_type,
    CASE
        WHEN http_url IS NULL THEN NULL
        WHEN regexp_matches(http_url, '/(oauth2?|token|login|signin|sign-in|authorize|introspect|logout)([/?#]|$)', 'i')
            THEN 'login'
        WHEN regexp_matches(http_url, '/(chat/completions|completions|embeddings)([/?#]|$)'
                || '|^https?://(api[.]openai[.]com|api[.]anthropic[.]com|generativelanguage[.]googleapis[.]com)/', 'i')
            THEN 'model'
        ELSE 'service'
    END AS http_peer
FROM named;
