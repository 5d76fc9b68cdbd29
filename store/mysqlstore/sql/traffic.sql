-- name: traffic_add
{add_traffic} {or_none}
