-- coverage: one row of figures on how complete the traces are; the names are the fields of Coverage.

SELECT
    (SELECT count(DISTINCT path) FROM spans) AS files,
    (SELECT count(*) FROM spans) AS spans,
    (SELECT count(*) FROM superseded) AS copies,
    (SELECT count(DISTINCT trace_id) FROM spans) AS traces,
    (SELECT min(start_ns) FROM spans) AS first_ns,
    (SELECT max(coalesce(end_ns, start_ns)) FROM spans) AS last_ns,
    (SELECT count(*) FROM spans AS s
     WHERE s.parent_span_id IS NOT NULL AND NOT EXISTS (
         SELECT 1 FROM spans AS up WHERE up.trace_id = s.trace_id AND up.span_id = s.parent_span_id)) AS orphans,
    (SELECT count(*) FROM spans WHERE end_ns IS NULL) AS unfinished,
    (SELECT count(*) FROM spans WHERE trace_id IS NULL OR span_id IS NULL) AS without_ids,
    (SELECT count(*) FROM tool_calls) AS tool_calls,
    (SELECT count(*) FROM tool_calls WHERE guarded) AS with_readmit,
    (SELECT count(*) FROM tool_calls AS c
     LEFT JOIN epochs AS e ON e.trace_id = c.trace_id AND e.span_id = c.span_id
     WHERE c.arguments_key IS NOT NULL OR e.input_digest IS NOT NULL) AS with_arguments,
    (SELECT count(*) FROM model_turns) AS model_turns,
    (SELECT count(*) FROM sends) AS sends,
    (SELECT count(*) FROM epochs WHERE kind = 'executed') AS epochs,
    (SELECT count(*) FROM epochs WHERE kind = 'admitted_only') AS admitted_only
