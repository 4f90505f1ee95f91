-- spans: one row for each span. Copies (equal trace id and span id) are collapsed before anything is counted: the latest
-- finished version wins (see reader/superseded.sql). Spans without ids are kept, each for itself.

SELECT r.*, f.path
FROM raw_spans AS r
LEFT JOIN files AS f ON f.read_path = r.read_path
WHERE r.rowid NOT IN (SELECT row_id FROM superseded)
