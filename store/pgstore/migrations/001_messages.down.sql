DROP FUNCTION {enqueue};
DROP VIEW {messages};
DROP TABLE {relay_lanes}, {relays}, {consumer_attempts}, {inbox}, {dead_letters}, {scheduled},
    {outbox_ids}, {outbox_archive}, {outbox_waiting}, {outbox};
DROP FUNCTION {clock};
DROP TABLE {schema_versions};
