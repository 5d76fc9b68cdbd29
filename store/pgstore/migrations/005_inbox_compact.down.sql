DROP TABLE {inbox_compact}, {inbox_scopes};
DROP FUNCTION {inbox_key}(text, text, text, text, text);
DELETE FROM {schema_versions} WHERE version = 5;
