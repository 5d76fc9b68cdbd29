-- There is no RETURNING that both servers know.

-- name: saga_add
{add_saga} {unless_there}

-- name: saga_update
{update_saga}

-- name: saga_written
SELECT {written_saga} FROM {sagas} WHERE {this_saga}
