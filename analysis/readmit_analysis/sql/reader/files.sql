-- files: which file a row of raw_spans came from. `read_path` is the name the reader used, `path` the file's own,
-- `file_no` the order of reading.

CREATE TABLE files (read_path VARCHAR, path VARCHAR, file_no BIGINT);
