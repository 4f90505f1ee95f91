-- argument_keys: for every distinct text of tool arguments the key by which two of them are compared, or NULL.
-- The key is made in Python (see _arguments.py), since no engine sorts the keys of nested JSON by itself.

CREATE TABLE argument_keys (arguments_type VARCHAR, arguments VARCHAR, arguments_key VARCHAR);
