-- A message that was never in the outbox has a random negative position: if programs gave it, they
-- could take the one that a message of somebody else is going to have.
ALTER TABLE {scheduled} MODIFY position BIGINT NOT NULL DEFAULT (-1 - CAST(RAND() * 9007199254740991 AS SIGNED));
INSERT INTO {schema_versions} (version, name) VALUES (6, '006_borders') ON DUPLICATE KEY UPDATE name = name;
