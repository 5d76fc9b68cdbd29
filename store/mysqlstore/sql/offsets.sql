-- name: offset_add
{add_progress} {unless_there}
