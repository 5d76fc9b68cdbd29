-- What processes have counted, for the history of traffic. step and began_at are seconds, the latter since 1970.
INSERT INTO {schema_versions} (version, name) VALUES (15, '015_traffic');

CREATE TABLE {traffic} (
    step     INTEGER NOT NULL,
    began_at INTEGER NOT NULL,
    writer   TEXT NOT NULL,
    data     BLOB NOT NULL,
    PRIMARY KEY (step, began_at, writer)
) STRICT, WITHOUT ROWID;
