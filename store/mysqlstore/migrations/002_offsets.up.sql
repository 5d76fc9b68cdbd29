-- How far consumers that keep their offsets here have come: one row for each partition.

--   next_offset     of the first message that is not done with
--   recorded_below  messages before this offset have records in the inbox, or had
--   generation      of the consumer group when member took the partition, which alone goes on
--   repeats         how often a row was found there that was to be added
CREATE TABLE IF NOT EXISTS {consumer_offsets} (
    consumer_group   VARBINARY(512) NOT NULL,
    topic            VARBINARY(512) NOT NULL,
    partition_number INT NOT NULL,
    next_offset      BIGINT NOT NULL,
    recorded_below   BIGINT NOT NULL,
    generation       INT NOT NULL,
    member           VARBINARY(1024) NOT NULL,
    updated_at       BIGINT NOT NULL,
    repeats          INT NOT NULL DEFAULT 0,
    PRIMARY KEY (consumer_group, topic, partition_number)
) {table};
INSERT INTO {schema_versions} (version, name) VALUES (2, '002_offsets') ON DUPLICATE KEY UPDATE name = name;
