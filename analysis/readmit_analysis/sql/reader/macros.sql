-- Small helpers of the DuckDB reader. Everything that only DuckDB can say lives in this folder;
-- the views and the detectors are plain SQL.
--
-- attribute(attributes, key)   the text of the first attribute with this key, or NULL; meant for your own queries
-- attribute_text(value)        the text of one OTLP AnyValue; numbers and booleans as they were written
-- picked(names, texts, name)   the text under a name, from two lists that belong together
-- hex_id(id, bytes)            an id as lower-case hex, whether it came as hex or as base64
-- nanoseconds(t)               a time, number or decimal string, as BIGINT; 0 means not set

CREATE MACRO attribute_text(v) AS
    coalesce(v.stringValue, v.intValue, v.boolValue, v.doubleValue, v.bytesValue,
             v.arrayValue::VARCHAR, v.kvlistValue::VARCHAR);

CREATE MACRO attribute_type(v) AS
    CASE WHEN v.stringValue IS NOT NULL THEN 'string' WHEN v.intValue IS NOT NULL THEN 'int'
         WHEN v.boolValue IS NOT NULL THEN 'bool' WHEN v.doubleValue IS NOT NULL THEN 'double'
         WHEN v.bytesValue IS NOT NULL THEN 'bytes' WHEN v.arrayValue IS NOT NULL THEN 'array'
         WHEN v.kvlistValue IS NOT NULL THEN 'kvlist' END;

CREATE MACRO picked(names, texts, name) AS texts[list_position(names, name)];

CREATE MACRO attribute(attributes, name) AS
    attribute_text(attributes[list_position(list_transform(attributes, lambda a: a.key), name)].value);

CREATE MACRO hex_id(id, bytes) AS
    CASE
        WHEN id IS NULL OR ltrim(id, '0') = '' THEN NULL
        WHEN length(id) = 2 * bytes AND regexp_full_match(id, '[0-9a-fA-F]+') THEN lower(id)
        WHEN length(rtrim(id, '=')) = ceil(bytes * 4 / 3) AND regexp_full_match(rtrim(id, '='), '[A-Za-z0-9+/_-]+')
            THEN nullif(lower(hex(TRY(from_base64(
                rpad(translate(rtrim(id, '='), '-_', '+/'), (4 * ceil(bytes / 3))::INTEGER, '='))))), repeat('0', 2 * bytes))
        ELSE lower(id)
    END;

CREATE MACRO nanoseconds(t) AS
    nullif(coalesce(try_cast(t AS BIGINT), try_cast(try_cast(t AS DOUBLE) AS BIGINT)), 0);
