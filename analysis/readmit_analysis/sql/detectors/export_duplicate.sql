-- export_duplicate (benign): the same span is in the files more than once; it was exported twice, not executed twice.
--
-- Equal trace id and span id, after ids were brought to one form. One finding for each trace. If the versions differ in
-- name or start, two spans may share one id: cannot_tell.
--
-- One row for each span of a finding.

WITH repeated AS (
    SELECT DISTINCT trace_id, span_id FROM superseded
),
versions AS (
    SELECT
        r.trace_id, r.span_id,
        count(*) - 1 AS copies,
        CASE WHEN min(r.name) <> max(r.name) OR max(r.start_ns) - min(r.start_ns) > 1000 THEN 1 ELSE 0 END AS differ,
        max(CASE WHEN r.from_journal THEN 1 ELSE 0 END) AS from_journal,
        min(r.start_ns) AS start_ns, min(f.path) AS one_path, max(f.path) AS other_path
    FROM raw_spans AS r
    JOIN repeated AS d ON d.trace_id = r.trace_id AND d.span_id = r.span_id
    LEFT JOIN files AS f ON f.read_path = r.read_path
    GROUP BY r.trace_id, r.span_id
),
totals AS (
    SELECT
        trace_id, count(*) AS spans, sum(copies) AS copies, max(differ) AS differ, max(from_journal) AS from_journal,
        min(one_path) AS one_path, max(other_path) AS other_path
    FROM versions
    GROUP BY trace_id
)
SELECT
    'export_duplicate' AS verdict,
    'trace ' || v.trace_id AS finding,
    CASE WHEN t.differ = 1 THEN 'cannot_tell' ELSE 'confirmed' END AS confidence,
    s.occurrence_id, s.tool, v.trace_id, v.span_id, v.start_ns AS position,
    'spans of this trace that were exported more than once: ' || CAST(t.spans AS VARCHAR)
        || ', further copies: ' || CAST(t.copies AS VARCHAR) || '; '
        || CASE WHEN t.one_path = t.other_path THEN 'in ' || t.one_path
                ELSE 'in files from ' || t.one_path || ' to ' || t.other_path END AS why,
    CAST(NULL AS VARCHAR) AS justification,
    CAST(NULL AS VARCHAR) AS not_benign_because,
    'identity: equal trace id and span id'
        || CASE WHEN t.from_journal = 1 THEN ' | some were emitted again from the journal' ELSE '' END
        || CASE WHEN t.differ = 1 THEN ' | the versions differ in name or start: two spans may share one id' ELSE '' END
        AS reasons,
    CAST(NULL AS BIGINT) AS age_ns
FROM versions AS v
JOIN totals AS t ON t.trace_id = v.trace_id
LEFT JOIN spans AS s ON s.trace_id = v.trace_id AND s.span_id = v.span_id
