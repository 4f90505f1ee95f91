-- superseded: the rows of raw_spans that are copies of another one, so that views can leave them out.
--
-- Copies have an equal trace id and span id. The latest finished version stays; between equally late ones the live span
-- before the one emitted from the journal, then the one read last. Rows without ids are never copies.

CREATE TABLE superseded AS
WITH repeated AS (
    SELECT trace_id, span_id FROM raw_spans
    WHERE trace_id IS NOT NULL AND span_id IS NOT NULL
    GROUP BY trace_id, span_id HAVING count(*) > 1
),
versions AS (
    SELECT
        r.rowid AS row_id, r.trace_id, r.span_id,
        row_number() OVER (
            PARTITION BY r.trace_id, r.span_id
            ORDER BY
                CASE WHEN r.end_ns IS NULL THEN 1 ELSE 0 END,
                r.end_ns DESC,
                CASE WHEN r.from_journal THEN 1 ELSE 0 END,
                f.file_no DESC,
                r.rowid DESC
        ) AS version_rank
    FROM raw_spans AS r
    JOIN repeated AS d ON d.trace_id = r.trace_id AND d.span_id = r.span_id
    LEFT JOIN files AS f ON f.read_path = r.read_path
)
SELECT row_id, trace_id, span_id FROM versions WHERE version_rank > 1
