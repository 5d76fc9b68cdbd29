-- What processes have counted, for the history of traffic. step and began_at are seconds, the latter since 1970.
CREATE TABLE IF NOT EXISTS {traffic} (
    step     INT NOT NULL,
    began_at BIGINT NOT NULL,
    writer   VARBINARY(64) NOT NULL,
    data     LONGBLOB NOT NULL,
    PRIMARY KEY (step, began_at, writer)
) {table};
INSERT INTO {schema_versions} (version, name) VALUES (11, '011_traffic') ON DUPLICATE KEY UPDATE name = name;
