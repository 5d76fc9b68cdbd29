-- What processes have counted, for the history of traffic. It waits for step 17, which may have been left for
-- later.
DO $body$
BEGIN
    IF NOT EXISTS (SELECT FROM {schema_versions} WHERE version = 17) THEN
        RETURN;
    END IF;
    -- step and began_at are seconds, the latter since 1970.
    CREATE TABLE {traffic} (
        step     integer NOT NULL,
        began_at bigint NOT NULL,
        writer   text COLLATE "C" NOT NULL,
        data     bytea NOT NULL,
        PRIMARY KEY (step, began_at, writer)
    );
    INSERT INTO {schema_versions} (version, name) VALUES (18, '018_traffic');
END
$body$;
