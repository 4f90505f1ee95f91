-- spans: one row for each span. Copies (equal trace id and span id) are collapsed first, before anything is counted.
--
-- The latest finished version wins; between equally late ones the live span before the one emitted from the journal,
-- then the one read last. `copies` says how many there were. Spans without ids are kept, each for itself.
-- `version_rank` is always 1.

SELECT *
FROM (
    SELECT
        r.*,
        f.path,
        f.file_no,
        count(*) OVER (PARTITION BY r.trace_id, r.span_id, r.nameless) AS copies,
        row_number() OVER (
            PARTITION BY r.trace_id, r.span_id, r.nameless
            ORDER BY
                CASE WHEN r.end_ns IS NULL THEN 1 ELSE 0 END,
                r.end_ns DESC,
                CASE WHEN r.from_journal THEN 1 ELSE 0 END,
                f.file_no DESC,
                r.arrival DESC
        ) AS version_rank
    FROM (
        SELECT
            raw_spans.*,
            raw_spans.rowid AS arrival,
            CASE WHEN trace_id IS NULL OR span_id IS NULL THEN raw_spans.rowid END AS nameless
        FROM raw_spans
    ) AS r
    LEFT JOIN files AS f ON f.read_path = r.read_path
) AS versions
WHERE version_rank = 1
