package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// breaks are ways to break what a store does when sessions conflict. Each is looked for by all
// scenarios of internal/interleave at one level; together every scenario finds one.
var breaks = []bug{
	{name: "a settlement does not ask whose lanes they are", file: pgSQL + "settle.sql",
		old: "AND l.owner = $1 AND (l.lane, l.epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))\n   FOR SHARE\n",
		new: "AND $1::text <> '' AND l.lane = ANY ($2::int[]) AND $3::bigint[] IS NOT NULL\n   FOR SHARE\n"},
	{name: "a settlement does not lock its lanes", file: pgSQL + "settle.sql", old: "$3::bigint[]))\n   FOR SHARE\n", new: "$3::bigint[]))\n"},
	{name: "what is published is not archived", file: pgSQL + "settle.sql", old: "FROM gone o\n)", new: "FROM gone o WHERE false\n)"},
	{name: "what is to wait vanishes", file: pgSQL + "settle.sql", old: "i.position = m.position\nON CONFLICT", new: "i.position = m.position WHERE false\nON CONFLICT"},
	{name: "a relay's dead letter is not stored", file: pgSQL + "settle.sql", old: "FROM m WHERE m.number {.given}", new: "FROM m WHERE false AND m.number {.given}"},
	{name: "what was scheduled becomes a dead letter", file: pgSQL + "scheduled.sql", old: "WHERE s.nth = 1 AND", new: "WHERE s.nth = 0 AND"},
	{name: "dead letters that park are not locked", file: pg + "settleplan.go", old: "s.HoldLetters, len(p.Promote)", new: "s.HoldLetters, 0"},
	{name: "a dead letter is not locked", file: rowsSQL + "letter.sql", old: "WHERE number = $1 {for_update}", new: "WHERE number = $1"},
	{name: "an id that is there is an error", file: pgSQL + "enqueue.sql", old: "ON CONFLICT (id, source, tenant) DO NOTHING\nRETURNING {waking}", new: "RETURNING {waking}"},
	{name: "unique ids are not kept", file: pg + "enqueue.go", old: "text = s.EnqueueUnique", new: "text = s.EnqueueMany"},
	{name: "an open writer is taken for one that begins now", file: pg + "cursor.go", old: "writer{above: c.last,", new: "writer{above: seen.Last,"},
	{name: "a lane is taken for read to its end", file: pg + "cursor.go", old: "upTo := c.last", new: "upTo := int64(math.MaxInt64)"},
	{name: "lanes are taken from those who own them", file: pgSQL + "lanes.sql",
		old: "owner = $1, epoch = epoch + 1, since = {clock}()\n WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane",
		new: "owner = $1, since = {clock}()\n WHERE lane IN (SELECT lane FROM {relay_lanes} ORDER BY lane"},
	{name: "two advance a replay at the same time", file: pgSQL + "replay.sql", old: " FOR UPDATE OF r SKIP LOCKED", new: ""},
	{name: "a saga is written over another version", file: pgSQL + "sagas.sql",
		old: "WHERE number = $8::bigint AND version = $9::bigint", new: "WHERE number = $8::bigint AND $9::bigint > 0"},
	{name: "a saga is not locked", file: rowsSQL + "sagas.sql", old: "{saga_read} {for_update}", new: "{saga_read}"},
	{name: "a saga that is there is an error", file: pgSQL + "sagas.sql", old: "\n    ON CONFLICT (key, saga, tenant) DO NOTHING", new: ""},
	{name: "a token that is there is an error", file: pgSQL + "scheduled.sql", old: "\nON CONFLICT (token) DO NOTHING", new: ""},

	{name: "a dead letter that is settled releases nothing", file: rows + "change.go",
		old: "c.SQL.ReleaseUnit, number)\n\treturn err", new: "c.SQL.ReleaseUnit, 0*number)\n\treturn err"},
	{name: "a requeued dead letter vanishes", file: rows + "change.go",
		old: "conn.Exec(ctx, c.SQL.RequeueRelay, l.number, replay)", new: "replay+1, error(nil)"},
	{name: "a requeued dead letter stays", file: rows + "change.go",
		old: "_, err = conn.Exec(ctx, c.SQL.RemoveLetter, l.number)\n\treturn err == nil, err", new: "return err == nil, err"},
	{name: "a requeue does not lock what is before it", file: rows + "change.go", old: `if c.SQL.HoldUnit != "" {`, new: `if false {`},
	{name: "a resolved dead letter is requeued", file: "internal/rows/rules.go",
		old: "case l.State != deadletter.Open:\n\t\treturn false, deadletter.ErrResolved\n\tcase l.Keyless:", new: "case l.Keyless:"},
	{name: "a deleted dead letter stays", file: rows + "change.go", old: "{c.SQL.ReleaseRecord, c.SQL.RemoveLetter}", new: "{c.SQL.ReleaseRecord}"},
	{name: "a cancelled message lets nobody go", file: rows + "cancel.go",
		old: "c.Settle(ctx, conn, settleplan.Cancel(claims))",
		new: "c.Settle(ctx, conn, func(p *settleplan.Plan) *settleplan.Plan { p.Promote = nil; return p }(settleplan.Cancel(claims)))"},
	{name: "what was not found counts as cancelled", file: rows + "cancel.go",
		old: "if err != nil || !found {\n\t\treturn false, err\n\t}\n\tif _, err := conn.Exec(ctx, c.SQL.SettleLetter", new: "if err != nil || !found {\n\t\treturn true, err\n\t}\n\tif _, err := conn.Exec(ctx, c.SQL.SettleLetter"},
	{name: "what is requeued by a replay does not count", file: "internal/rows/rules.go", old: "r.Requeued++", new: "r.Skipped++"},
	{name: "a copy counts as new", file: rows + "inbox.go", old: "e.fresh = n > 0", new: "e.fresh = n >= 0"},
	{name: "the handler does not run", file: rows + "inbox.go", old: "ran = true\n\t\treturn FromCaller(fn(ctx, tx))", new: "ran = true\n\t\treturn nil"},
	{name: "the handler runs for copies", file: rows + "inbox.go", old: "err != nil || !e.fresh {", new: "err != nil {"},
	{name: "a message is dead-lettered twice", file: rows + "inbox.go", old: "if err != nil || n == 0 {\n\t\t\t\treturn err", new: "if err != nil || n < 0 {\n\t\t\t\treturn err"},
	{name: "a dead letter is not stored", file: rows + "inbox.go",
		old: "conn.Exec(ctx, c.SQL.AddLetter, letterArgs(l)...)", new: "conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(l.Record.Key)...)"},
	{name: "all of a batch count as new", file: rows + "inboxbatch.go", old: "if b.seen[i].IsNew {", new: "if i >= 0 {"},
	{name: "a record that is there counts as added", file: rows + "recorder.go", old: "return n > 0, nil", new: "return true, nil"},
	{name: "who comes second has the lease, too", file: rows + "leaserow.go", old: "case r.id == id && !r.until.IsZero():", new: "case !r.until.IsZero():"},
	{name: "what is processed counts as released", file: rows + "leaserow.go",
		old: "case r.processed:\n\t\treturn lease.Processed\n\tcase r.until", new: "case r.until"},
	{name: "a caller without attempts left is answered as if somebody held the key", file: rows + "leaserow.go",
		old: "case !r.taken && req.MaxAttempts > 0 &&", new: "case r.taken && req.MaxAttempts > 0 &&"},
	{name: "an attempt is not taken back", file: rows + "leases.go", old: "back = 1", new: "back = 0"},
	{name: "what is cancelled stays scheduled", file: rowsSQL + "scheduled.sql",
		old: "DELETE FROM {scheduled} WHERE token = $1", new: "UPDATE {scheduled} SET token = token WHERE token = $1"},
	{name: "what a schedule fires is not enqueued", file: rows + "schedules.go", old: "Messages: []waybill.Message{*m}}", new: "Messages: []waybill.Message{*m}[:0]}"},
	{name: "a purged dead letter stays", file: rows + "janitor.go",
		old: "conn.Exec(ctx, c.SQL.Cleanup.PurgeLetters, numbers)", new: "int64(len(numbers)), error(nil)"},
	{name: "a schedule that was changed is written over", file: "schedule/change.go", old: "if err == nil && !written {", new: "if err == nil && !written && state.Version == 0 {"},
}

const (
	pg   = "store/pgstore/"
	rows = "internal/sqlstore/" // what the SQL stores share

	pgSQL   = pg + "sql/"
	rowsSQL = rows + "sql/"

	// ordersOf is where breaks are looked for: the orders of the steps of sessions on PostgreSQL.
	ordersOf = "TestPostgres/read_committed"
)

// tryOrders prints which scenarios find each break, and those that find none.
func tryOrders(ctx context.Context, only *regexp.Regexp) {
	scenarios := make(map[string][]string) // breaks that were found, by scenario
	lost := false
	for _, b := range breaks {
		if !only.MatchString(b.name) {
			continue
		}
		found, err := disordered(ctx, b, scenarios)
		if err != nil {
			fmt.Println(err)
		}
		lost = lost || len(found) == 0
		fmt.Printf("%s: %d scenarios\n", b.name, len(found))
		for _, s := range found {
			scenarios[s] = append(scenarios[s], b.name)
		}
	}
	fmt.Print("\n| scenario | breaks that it finds |\n|---|---|\n")
	for _, s := range slices.Sorted(maps.Keys(scenarios)) {
		by := strings.Join(scenarios[s], "; ")
		lost = lost || by == ""
		fmt.Printf("| %s | %s |\n", strings.ReplaceAll(s, "_", " "), cmp.Or(by, "**nothing**"))
	}
	if lost {
		os.Exit(1)
	}
}

var scenarioLine = regexp.MustCompile(`(?m)^ *(=== RUN|--- FAIL:) +` + ordersOf + `/(\S+)`)

// disordered runs all scenarios with a break and returns those that find it. It adds all to known.
func disordered(ctx context.Context, b bug, known map[string][]string) (found []string, err error) {
	at, err := root()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "break")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay, err := b.overlay(at, dir)
	if err != nil {
		return nil, err
	}
	test, level, _ := strings.Cut(ordersOf, "/")
	out, _ := run(ctx, at, "go", "test", "-count=1", "-v", "-overlay", overlay, "-run", "^"+test+"$/^"+level+"$", "./internal/interleave")
	ran := false
	for _, m := range scenarioLine.FindAllStringSubmatch(out, -1) {
		ran = true
		if m[1] == "=== RUN" {
			known[m[2]] = slices.Clone(known[m[2]])
		} else {
			found = append(found, m[2])
		}
	}
	if !ran {
		return nil, fmt.Errorf("no scenario was run: %s", out)
	}
	if _, panicked, ok := strings.Cut(out, "\npanic: "); ok {
		return nil, fmt.Errorf("the scenarios behind one that panics were not run: %s", panicked)
	}
	return found, nil
}
