-- How far consumers that keep their offsets here have come: one row for each partition.
INSERT INTO {schema_versions} (version, name) VALUES (7, '007_offsets');

--   next_offset     of the first message that is not done with
--   recorded_below  messages before this offset have records in the inbox, or had
--   generation      of the consumer group when member took the partition, which alone goes on
CREATE TABLE {consumer_offsets} (
    consumer_group   text COLLATE "C" NOT NULL,
    topic            text COLLATE "C" NOT NULL,
    partition_number integer NOT NULL,
    next_offset      bigint NOT NULL,
    recorded_below   bigint NOT NULL,
    generation       integer NOT NULL,
    member           text NOT NULL,
    updated_at       timestamptz NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_number)
) WITH (
    -- Each message rewrites its row, on the same page: no index holds what changes.
    fillfactor = 10
);
