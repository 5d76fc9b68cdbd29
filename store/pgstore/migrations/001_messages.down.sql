DROP FUNCTION {enqueue};
DROP VIEW {messages};
DROP TABLE {relay_lanes}, {relays}, {consumer_attempts}, {inbox}, {dead_letters}, {scheduled},
    {outbox_ids}, {outbox_archive}, {outbox_waiting}, {outbox};
DROP FUNCTION {wake_relays};
DROP SEQUENCE {wakeups};
DROP FUNCTION {clock}, {lane}, {storable};
DROP TABLE {schema_versions};
