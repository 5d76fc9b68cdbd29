-- What a key of the lease contract stands for, and how long it waits after it was released.
-- Programs of earlier versions go on while this is applied and after it; they begin keys early.
INSERT INTO {schema_versions} (version, name) VALUES (10, '010_lease_waits');

--   due_at        until when nobody begins a key that was released with a wait; NULL otherwise
--   payload_hash  of the request that acquired the key last; NULL or empty if it named none
ALTER TABLE {inbox_leases} ADD COLUMN due_at timestamptz, ADD COLUMN payload_hash text COLLATE "C";
