package mysqlstore

import "strings"

// The places where a message can be: a table, and how its status and the columns that not all
// of them have are made.
var places = []struct{ table, status, destination, attempts, err, due, published, where string }{
	{"{outbox}", "CASE WHEN deliver_at > {now} THEN 'Scheduled' ELSE 'Pending' END", "''", "0", "''", "deliver_at", "NULL", ""},
	{"{outbox_waiting}", "'Waiting'", "destination", "attempts", "error", "due_at", "NULL", ""},
	{"{scheduled}", "'Scheduled'", "''", "0", "''", "due_at", "NULL", ""},
	{"{outbox_archive}", "'Published'", "destination", "attempts", "''", "NULL", "published_at", ""},
	{"{dead_letters}", "CASE WHEN state = 'discarded' THEN 'Discarded' WHEN failed THEN 'Failed' ELSE 'Dead' END",
		"destination", "attempts", "error", "requeued_at", "NULL", "origin = 'relay'"},
}

// statesSQL reads which messages are in which place. Each table is asked with the condition itself,
// in which {status} is the status: the server would materialize all messages before it applied an
// outer condition.
func statesSQL(condition string) string {
	selects := make([]string, len(places))
	for i, p := range places {
		var where []string
		if p.where != "" {
			where = append(where, p.where)
		}
		if condition != "" {
			where = append(where, strings.ReplaceAll(condition, "{status}", p.status))
		}
		selects[i] = "SELECT id, " + p.status + " AS status,\n        topic, direct, " + p.destination +
			" AS destination, CASE WHEN type = '' THEN topic ELSE type END AS type, source, tenant, {key}, correlation_id,\n        " +
			p.attempts + " AS attempts, " + p.err + " AS error, enqueued_at, " + p.due + " AS due_at, " + p.published + " AS published_at\n      FROM " + p.table
		if len(where) > 0 {
			selects[i] += " WHERE " + strings.Join(where, " AND ")
		}
	}
	return strings.Join(selects, "\n    UNION ALL\n    ")
}
