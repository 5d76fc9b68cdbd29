-- How far consumers that keep their offsets here have come: one row for each partition.
INSERT INTO {schema_versions} (version, name) VALUES (6, '006_offsets');

--   next_offset     of the first message that is not done with
--   recorded_below  messages before this offset have records in the inbox, or had
--   generation      of the consumer group when member took the partition, which alone goes on
CREATE TABLE {consumer_offsets} (
    consumer_group   TEXT NOT NULL,
    topic            TEXT NOT NULL,
    partition_number INTEGER NOT NULL,
    next_offset      INTEGER NOT NULL,
    recorded_below   INTEGER NOT NULL,
    generation       INTEGER NOT NULL,
    member           TEXT NOT NULL,
    updated_at       INTEGER NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_number)
) STRICT, WITHOUT ROWID;
