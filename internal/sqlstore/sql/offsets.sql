-- fragment: this_partition
WHERE consumer_group = $1 AND topic = $2 AND partition_number = $3

-- Each is served by the primary key. Take and Advance wait for the transaction that has locked the
-- row, and see what it wrote. Advance changes nothing if the message is settled, or another holder
-- owns the partition.

-- name: offset_add
{add_progress} ON CONFLICT DO NOTHING

-- fragment: add_progress
INSERT INTO {consumer_offsets} (consumer_group, topic, partition_number, next_offset, recorded_below, generation, member, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, {now})

-- name: offset_read
SELECT next_offset, recorded_below, generation, member FROM {consumer_offsets} {this_partition}

-- name: offset_take
UPDATE {consumer_offsets}
   SET next_offset = $4, recorded_below = $5, generation = $6, member = $7, updated_at = {now} {this_partition}
   AND next_offset = $8 AND generation = $9 AND member = $10

-- name: offset_advance
UPDATE {consumer_offsets}
   SET next_offset = $4, updated_at = {now} {this_partition}
   AND next_offset < $4 AND generation = $5 AND member = $6
