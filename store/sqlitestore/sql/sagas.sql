-- name: saga_add
{add_saga} ON CONFLICT (key, saga, tenant) DO NOTHING RETURNING {written_saga}

-- name: saga_update
{update_saga} RETURNING {written_saga}
