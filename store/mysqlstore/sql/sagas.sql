-- No form of RETURNING works on both servers.

-- name: saga_add
{add_saga} {unless_there}

-- name: saga_update
{update_saga}

-- name: saga_written
SELECT {written_saga} FROM {sagas} WHERE {this_saga}
