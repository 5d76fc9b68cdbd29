-- The position of a message in the outbox is the database's to give: after the largest one there is
-- none for anybody. Where none is given, SQLite says -1 before the row is there.
INSERT INTO {schema_versions} (version, name) VALUES (10, '010_borders');
CREATE TRIGGER {outbox_position} BEFORE INSERT ON {outbox} WHEN new.position <> -1
BEGIN SELECT RAISE(ABORT, 'position is given by the database'); END;
CREATE TRIGGER {outbox_position_given} AFTER INSERT ON {outbox} WHEN new.position = -1
BEGIN SELECT RAISE(ABORT, 'position is given by the database'); END;
