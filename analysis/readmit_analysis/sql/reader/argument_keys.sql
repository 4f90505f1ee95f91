-- argument_keys: for every distinct text of tool arguments the key by which two of them are compared, or NULL.
-- The key is made in Python (see _arguments.py), since no engine sorts the keys of nested JSON by itself.

CREATE TABLE argument_keys AS
SELECT arguments_type, arguments, arguments_key(arguments_type, arguments) AS arguments_key
FROM (SELECT DISTINCT arguments_type, arguments FROM raw_spans WHERE arguments IS NOT NULL) AS texts;
