-- What a key of the lease contract stands for, and how long it waits after it was released.

--   due_at        until when nobody begins a key that was released with a wait; NULL otherwise
--   payload_hash  of the request that acquired the key last; NULL or empty if it named none
ALTER TABLE {inbox_leases} ADD COLUMN due_at BIGINT, ADD COLUMN payload_hash VARBINARY(64);

INSERT INTO {schema_versions} (version, name) VALUES (5, '005_lease_waits') ON DUPLICATE KEY UPDATE name = name;
