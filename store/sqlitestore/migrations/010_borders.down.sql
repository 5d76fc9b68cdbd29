DROP TRIGGER {outbox_position_given};
DROP TRIGGER {outbox_position};
DELETE FROM {schema_versions} WHERE version = 10;
