-- Attempts of a consumer that were begun and of whose end nobody knows.
INSERT INTO {schema_versions} (version, name) VALUES (4, '004_starts');
ALTER TABLE {consumer_attempts} ADD COLUMN starts integer NOT NULL DEFAULT 0;
