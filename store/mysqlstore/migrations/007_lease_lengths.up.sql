-- How long the leases of relays are. One that ends later than so long from now was written by a clock
-- that has been set back since. Programs of earlier versions go on, and leave it NULL.
ALTER TABLE {relays} ADD COLUMN lease_ms DOUBLE;

INSERT INTO {schema_versions} (version, name) VALUES (7, '007_lease_lengths') ON DUPLICATE KEY UPDATE name = name;
