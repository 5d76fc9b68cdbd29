package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// The two statements of a batch that went well. What keeps a relay that was superseded from
// deleting is its row in relays, which they lock FOR KEY SHARE; what it owns they just read.
//
//   - Taken for dead, it loses its lanes in the transaction that deletes its row. Either that
//     waits until the rows of the outbox are gone, or the statement waits, finds no row to
//     lock any more, and deletes nothing, whatever it has read of the lanes before.
//   - While its row stands, a lane leaves it only by its own renewal, and a relay gives up a
//     lane only when nothing of it is left to settle.
//   - Lanes that it had before, under an older epoch, do not match.
//
// The id keeps apart what has one position: a server that lost its latest commits, in a crash or
// because a standby that had not received them took over, may draw the position of a message again
// that a relay has claimed and not settled.
//
// Renewals do not wait: they change no key. Served by the primary keys, whatever the number
// of rows: the planner cannot see how long an array is that comes through a sub-select, and
// takes it for short. The lanes are an array for that reason, too: it would join what it takes for
// short by comparing each row with each lane, which cost three times what everything else does.
const (
	settleDeleteSQL = `
WITH` + settleFence + `
gone AS (
    DELETE FROM {outbox} o USING input i
     WHERE i.lane = ANY (ARRAY(SELECT f.lane FROM fence f)) AND o.position = i.position AND o.lane = i.lane AND o.id = i.id
)
SELECT lane FROM fence`

	settleArchiveSQL = `
WITH` + settleFence + `
gone AS (
    DELETE FROM {outbox} o USING input i
     WHERE i.lane = ANY (ARRAY(SELECT f.lane FROM fence f)) AND o.position = i.position AND o.lane = i.lane AND o.id = i.id
    RETURNING o.*, i.destination
), archived AS (
    INSERT INTO {outbox_archive} (published_at, lane, position, destination, {message})
    SELECT (SELECT {clock}()), o.lane, o.position, o.destination, {o.message} FROM gone o
)
SELECT lane FROM fence`

	settleFence = `
input AS (
    SELECT * FROM unnest((SELECT $4::int[]), (SELECT $5::bigint[]), (SELECT $6::text[]), (SELECT $7::text[])) AS i(lane, position, destination, id)
), alive AS MATERIALIZED (
    SELECT node FROM {relays} WHERE node = $1 FOR KEY SHARE
), fence AS MATERIALIZED (
    SELECT l.lane FROM alive JOIN {relay_lanes} l ON l.owner = alive.node
     WHERE (l.lane, l.epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))
),`
)

// fenceSQL does for a transaction what the fence above does for one statement, by locks on
// the lanes.
const fenceSQL = `
SELECT l.lane FROM {relay_lanes} l
 WHERE (SELECT ` + briefly + `) AND l.owner = $1 AND (l.lane, l.epoch) IN (SELECT * FROM unnest($2::int[], $3::bigint[]))
   FOR SHARE`

// parkSQL moves rows from the outbox to the waiting rows, one for each destination; the id as above. A row
// of a unit that waits already follows it. A second row with an identity that waits is dropped:
// it is the same message.
var parkSQL = `
WITH input AS (
    SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[], $4::boolean[], $5::boolean[], $6::float8[], $7::int[], $8::int[], $9::text[], $11::bigint[], $12::text[])
        AS i(lane, position, destination, behind, alone, after_ms, attempts, life, error, took, id)
), m AS (
    DELETE FROM {outbox} o USING (SELECT DISTINCT lane, position, id FROM input) i
     WHERE o.position = i.position AND o.lane = i.lane AND o.id = i.id
    RETURNING o.*
)
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, alone, due_at, attempts, life, error, first_failed_at, history)
SELECT m.lane, m.position, {m.message}, i.destination, i.alone,
       CASE WHEN i.behind OR (NOT i.alone AND ` + behindSQL("m", "i.destination") + `)
            THEN NULL ELSE {clock}() + i.after_ms * interval '1 millisecond' END,
       i.attempts, i.life, i.error, CASE WHEN i.attempts > 0 THEN {clock}() END,
       CASE WHEN i.attempts > 0 THEN {with_attempt}(NULL, $10, i.took, i.error) END
  FROM m JOIN input i ON i.lane = m.lane AND i.position = m.position
ON CONFLICT DO NOTHING`

// followSQL gives published messages a waiting row for each destination that comes after.
// Those with a key stay behind until promoteSQL lets the first of the key go: of several in
// one statement none sees the others.
const followSQL = `
INSERT INTO {outbox_waiting} (lane, position, {message}, destination, due_at)
SELECT w.lane, w.position, {w.message}, i.follower, CASE WHEN w.key = '' THEN {clock}() END
  FROM unnest($1::bigint[], $2::text[], $3::text[]) AS i(position, destination, follower)
  JOIN {outbox_waiting} w USING (position, destination)
ON CONFLICT DO NOTHING`

const waitingInput = `unnest($1::bigint[], $2::text[]) AS i(position, destination)`

var (
	deleteWaitingSQL = `
DELETE FROM {outbox_waiting} w USING ` + waitingInput + `
 WHERE w.position = i.position AND w.destination = i.destination`

	archiveWaitingSQL = `
WITH m AS (` + deleteWaitingSQL + ` RETURNING w.*)
INSERT INTO {outbox_archive} (published_at, lane, position, destination, attempts, life, {message})
SELECT {clock}(), m.lane, m.position, m.destination, m.attempts, m.life, {m.message} FROM m`

	// retrySQL comes after the statements that take rows away: what is left before a row of
	// its unit keeps it waiting behind.
	retrySQL = `
UPDATE {outbox_waiting} w
   SET due_at = CASE WHEN i.behind OR (NOT i.alone AND ` + behindSQL("w", "w.destination") + `)
            THEN NULL ELSE {clock}() + i.after_ms * interval '1 millisecond' END,
       alone = i.alone, attempts = i.attempts, life = i.life, error = CASE WHEN i.behind AND i.error = '' THEN w.error ELSE i.error END,
       first_failed_at = CASE WHEN i.attempts > 0 THEN coalesce(w.first_failed_at, {clock}()) END,
       history = CASE WHEN i.attempts > w.attempts THEN {with_attempt}(w.history, $9, i.took, i.error) ELSE w.history END
  FROM unnest($1::bigint[], $2::text[], $3::boolean[], $4::boolean[], $5::float8[], $6::int[], $7::int[], $8::text[], $10::bigint[])
       AS i(position, destination, behind, alone, after_ms, attempts, life, error, took)
 WHERE w.position = i.position AND w.destination = i.destination
   AND NOT (i.behind AND i.error = '' AND w.due_at IS NULL) -- is behind already`

	// burySQL gives a letter that was requeued the number that it had. Others are numbered by rising
	// positions: bulk replays go by number.
	burySQL = `
WITH m AS (
    DELETE FROM {outbox_waiting} w
     USING unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::int[], $6::boolean[], $7::boolean[], $8::text[], $10::bigint[])
           AS i(position, destination, reason, error, attempts, failed, parks, fingerprint, took)
     WHERE w.position = i.position AND w.destination = i.destination
    RETURNING w.*,
              i.reason, i.error AS last_error, i.attempts AS tried, i.failed, i.parks, i.fingerprint,
              CASE WHEN i.attempts > w.attempts THEN {with_attempt}(w.history, $9, i.took, i.error) ELSE w.history END AS told,
              CASE WHEN NOT EXISTS (SELECT FROM {dead_letters} d WHERE d.number = w.letter) THEN w.letter END AS number
), again AS (` + buryAs("number, ", "OVERRIDING SYSTEM VALUE", "m.number, ", "IS NOT NULL") + `
)` + buryAs("", "", "", "IS NULL")

	scheduleSQL = `
WITH m AS (` + deleteWaitingSQL + ` RETURNING w.*)
INSERT INTO {scheduled} (lane, position, {message}, due_at)
SELECT m.lane, m.position, {m.message}, m.deliver_at FROM m`
)

// buryAs inserts the letters of burySQL whose number is given, or is not.
func buryAs(column, overriding, number, given string) string {
	return `
INSERT INTO {dead_letters} (` + column + `origin, lane, position, destination, life, replay, {message}, reason, error, attempts, failed, parks, fingerprint, history, first_failed_at, last_failed_at)
` + overriding + `
SELECT ` + number + `'relay', m.lane, m.position, m.destination, m.life, m.replay, {m.movable}, m.reason, m.last_error, m.tried, m.failed, m.parks, m.fingerprint, m.told,
       coalesce(m.first_failed_at, {clock}()), {clock}()
  FROM m WHERE m.number ` + given + ` ORDER BY m.position`
}

// anyScheduledSQL looks whether there is work for releaseScheduledSQL, which would wake the
// relays also with nothing: a statement trigger runs for no rows, too. Served by the index on
// due_at, of which it reads the first entry: an EXISTS would read every row to find that none is due.
const anyScheduledSQL = `SELECT coalesce((SELECT min(due_at) FROM {scheduled}) <= {clock}(), false)`

// releaseScheduledSQL moves due rows into the outbox, id kept. One whose identity is on its way
// already, or is released by this statement too, becomes a dead letter: it must neither clog
// nor vanish. Several relays share the work by skipping each other's rows.
//
// The positions are an array, which the planner takes for short and looks up one by one: of an IN
// with a LIMIT that it does not know it expects a tenth of all rows, and reads the whole table.
var releaseScheduledSQL = release(`ARRAY(SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}())
                                  ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED)`)

// The statements for a batch in which there is a row that the outbox refuses: its rows are released
// one by one, and the one that is refused becomes a dead letter.
var (
	dueScheduledSQL = `
SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}()) ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED`

	releaseOneSQL = release(`ARRAY[$1::bigint]`)

	refuseScheduledSQL = `
WITH s AS (DELETE FROM {scheduled} WHERE position = $1 RETURNING *)
INSERT INTO {dead_letters} (origin, lane, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
SELECT 'relay', {lane}(s.key, s.id), s.position, {s.movable}, $2, $3, 0, {clock}(), {clock}() FROM s`
)

func release(positions string) string {
	return `
WITH gone AS (
    DELETE FROM {scheduled} WHERE position = ANY (` + positions + `) AND (SELECT ` + atOnce + `) RETURNING *
), s AS (
    SELECT *, row_number() OVER (PARTITION BY id, source, tenant ORDER BY due_at, position) AS nth FROM gone
), added AS (
    INSERT INTO {outbox} ({message})
    SELECT {s.message} FROM s
     WHERE s.nth = 1 AND NOT EXISTS (SELECT 1 FROM {outbox_waiting} w WHERE w.id = s.id AND w.source = s.source AND w.tenant = s.tenant)
     ORDER BY s.due_at, s.position
    ON CONFLICT (id, source, tenant) DO NOTHING
    RETURNING id, source, tenant
), left_over AS (
    SELECT * FROM s WHERE s.nth > 1 OR (s.id, s.source, s.tenant) NOT IN (SELECT id, source, tenant FROM added)
), refused AS (
    INSERT INTO {dead_letters} (origin, lane, position, {message}, reason, error, attempts, first_failed_at, last_failed_at)
    SELECT 'relay', {lane}(s.key, s.id), s.position, {s.movable}, 'duplicate_id', 'a message with this id was on its way when this one was due', 0, {clock}(), {clock}()
      FROM left_over s
)
SELECT (SELECT count(*) FROM s), (SELECT count(*) FROM left_over)`
}

// postponeSQL puts the message that releaseScheduledSQL would move first off.
const postponeSQL = `
UPDATE {scheduled} SET due_at = {clock}() + interval '5 seconds'
 WHERE position = (SELECT position FROM {scheduled} WHERE due_at <= (SELECT {clock}()) ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED)`

// SettleMessages implements [contract.Source]. A batch that was published as a whole takes one
// statement, everything else a transaction.
func (s *Store[Tx]) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	var held []int
	var err error
	if p := settleplan.New(req.Settlements); p.OnlyPublished() {
		err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
			held, err = s.settlePublished(ctx, conn, req, req.Settlements)
			return err
		})
	} else {
		defer s.clean.park(req.Settlements)()
		err = s.core.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
			held, err = s.settleMixed(ctx, conn, req)
			return err
		})
	}
	if err != nil {
		return nil, s.core.Kind(fmt.Errorf("settle %d messages: %w", len(req.Settlements), err))
	}
	return settleplan.Lost(req.Settlements, held), nil
}

// settlePublished writes down what came straight from the outbox and is published.
func (s *Store[Tx]) settlePublished(ctx context.Context, conn sqldb.Conn, req contract.SettleRequest, list []contract.Settlement) ([]int, error) {
	lanes, epochs := lanesOf(list)
	numbers := column(list, func(st contract.Settlement) int32 { return int32(st.Claim.Lane.Number) }) // pgx boxes each int
	positions := column(list, func(st contract.Settlement) int64 { return st.Claim.Position })
	destinations := column(list, func(st contract.Settlement) string { return st.Claim.Destination })
	ids := column(list, func(st contract.Settlement) string { return st.Claim.Message.ID })
	stmt := s.sql.settleDelete
	if req.Archive {
		stmt = s.sql.settleArchive
	}
	rows, err := conn.Query(ctx, stmt, req.Node, lanes, epochs, numbers, positions, destinations, ids)
	held, err := sqldb.Collect(rows, err, sqldb.Scan[int])
	if err != nil {
		return nil, fmt.Errorf("settle %d published messages: %w", len(list), err)
	}
	return held, nil
}

// lanesOf returns the lanes of settlements, each once, with their epochs.
func lanesOf(list []contract.Settlement) (numbers []int, epochs []int64) {
	seen := make(map[contract.Lane]bool)
	for _, st := range list {
		if l := st.Claim.Lane; !seen[l] {
			seen[l] = true
			numbers, epochs = append(numbers, l.Number), append(epochs, l.Epoch)
		}
	}
	return numbers, epochs
}

// settleMixed writes down what is in the lanes that are still ours, which it locks first.
func (s *Store[Tx]) settleMixed(ctx context.Context, conn sqldb.Conn, req contract.SettleRequest) ([]int, error) {
	lanes, epochs := lanesOf(req.Settlements)
	rows, err := conn.Query(ctx, s.sql.fence, req.Node, lanes, epochs)
	held, err := sqldb.Collect(rows, err, sqldb.Scan[int])
	if err != nil {
		return nil, fmt.Errorf("fence: %w", err)
	}
	p := settleplan.New(settleplan.Keep(req.Settlements, held))
	if len(p.Published) > 0 {
		if _, err := s.settlePublished(ctx, conn, req, p.Published); err != nil {
			return nil, err
		}
	}
	return held, settleSteps(ctx, conn, s.sql.steps(p, req))
}

// settlePlan is the core's Settle.
func (s *Store[Tx]) settlePlan(ctx context.Context, conn sqldb.Conn, p *settleplan.Plan) error {
	return settleSteps(ctx, conn, s.sql.steps(p, contract.SettleRequest{}))
}

func settleSteps(ctx context.Context, conn sqldb.Conn, steps []settleStep) error {
	for _, step := range steps {
		if step.rows == 0 {
			continue
		}
		if _, err := conn.Exec(ctx, step.sql, step.args...); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// ReleaseScheduled implements [contract.Source].
func (s *Store[Tx]) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	return sqlstore.ReleaseAround(limit, func(limit int) (int, error) { return s.releaseFirst(ctx, limit) }, func() error {
		_, err := s.core.DB.Exec(ctx, s.sql.postpone)
		return s.core.Kind(err)
	})
}

// releaseFirst releases what is due first.
func (s *Store[Tx]) releaseFirst(ctx context.Context, limit int) (n int, err error) {
	err = s.db.run(ctx, func(conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, s.sql.anyScheduled)
		if due, _, err := sqldb.One(rows, err, sqldb.Scan[bool]); err != nil || !due {
			return err
		}
		n, err = s.release(ctx, conn, s.sql.releaseScheduled, limit)
		return err
	})
	if err = s.core.Kind(err); sqlstore.RefusesRow(err) {
		return s.releaseEach(ctx, limit)
	}
	return n, err
}

// release runs a statement that releases messages.
func (s *Store[Tx]) release(ctx context.Context, conn sqldb.Conn, stmt string, arg any) (n int, err error) {
	rows, err := conn.Query(ctx, stmt, arg)
	refused := 0
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&n, &refused) })
	if err == nil && refused > 0 {
		err = s.core.NameLetters(ctx, conn)
	}
	return n, err
}

// releaseEach releases messages one by one. What the outbox refuses becomes a dead letter.
func (s *Store[Tx]) releaseEach(ctx context.Context, limit int) (n int, err error) {
	rows, err := s.core.DB.Query(ctx, s.sql.dueScheduled, limit)
	positions, err := sqldb.Collect(rows, err, sqldb.Scan[int64])
	if err != nil {
		return 0, s.core.Kind(err)
	}
	for _, position := range positions {
		err := s.db.run(ctx, func(conn sqldb.Conn) error {
			_, err := s.release(ctx, conn, s.sql.releaseOne, position)
			return err
		})
		if err = s.core.Kind(err); sqlstore.RefusesRow(err) {
			err = s.refuseScheduled(ctx, position, err)
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

func (s *Store[Tx]) refuseScheduled(ctx context.Context, position int64, why error) error {
	err := s.db.run(ctx, func(conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, s.sql.refuseScheduled, position, string(waybill.ReasonMalformed), waybill.ErrorText(why))
		if err == nil {
			err = s.core.NameLetters(ctx, conn)
		}
		return err
	})
	return s.core.Kind(err)
}
