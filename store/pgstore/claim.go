package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// notHeld keeps out what the caller has under way ($4). The sub-select is run once and its
// result hashed.
const notHeld = `position NOT IN (SELECT unnest($4::bigint[]))`

// rowNotHeld keeps out waiting rows of which the caller has those for some destinations only ($5).
const rowNotHeld = ` AND (w.position || '/' || w.destination) NOT IN (SELECT unnest($5::text[]))`

// ownsLane keeps out what is in a lane l that has another epoch by now. The sub-select is run once and its
// result hashed; the condition is looked at once for each lane.
const ownsLane = ` AND (l.lane, l.epoch) IN (SELECT r.lane::int, r.epoch FROM {relay_lanes} r)`

var leastOfKey = strconv.Itoa(sqlstore.LeastOfKey)

// claimDueSQL reads waiting messages that are due: the heads of their keys, and behind a head
// that has not failed since it was let go the rest of its key, in order, up to a dead letter
// that parks the rest, or a message that waits for its own time: one that was requeued may come before it.
// Only the first that waits of a key takes others along: one before it may have been committed later, and wait
// longer. A head that has failed is tried alone. Safe with several relays because each reads only lanes that it
// owns; served by the partial index on (lane, due_at) and the one on (topic, key, …).
//
// As in claimPageSQL, the limit of a lane comes through a sub-select, so that what is due is read in
// the order of the index and not as a whole. Its rows are then looked up one by one: a join would
// read the whole table where the planner expects many.
//
// What is behind several heads of one key, up to a letter that parks it, is what is behind the first of
// them: that one is the leader, so that the rest of a key is read once and not by each head. Of each key a
// claim reads the share that its limit has room for.
var claimDueSQL = `
WITH head AS (
    SELECT h.*
      FROM unnest($1::int[], $6::bigint[]) AS l(lane, epoch)
     CROSS JOIN LATERAL (
        SELECT w.position, w.destination, w.topic, w.key, w.attempts, w.alone
          FROM {outbox_waiting} w
         WHERE w.lane = l.lane` + ownsLane + ` AND w.due_at <= (SELECT {clock}()) AND w.destination NOT IN (SELECT unnest($3::text[])) AND w.` + notHeld + rowNotHeld + `
         ORDER BY w.due_at, w.position
         LIMIT (SELECT $2::bigint)) h
     LIMIT $2
), leader AS (
    SELECT DISTINCT ON (h.topic, h.key, h.destination) h.*
      FROM (
        SELECT position, topic, key, destination, coalesce((
                SELECT min(p.position) FROM {dead_letters} p
                 WHERE p.topic = head.topic AND p.key = head.key AND p.destination = head.destination AND p.parks), 9223372036854775807) AS barrier
          FROM head
         WHERE key <> '' AND attempts = 0 AND NOT alone) h
     ORDER BY h.topic, h.key, h.destination, h.position
), due AS (
    SELECT position, destination FROM head
    UNION ALL
    SELECT f.position, f.destination
      FROM leader l
     CROSS JOIN LATERAL (
        SELECT n.*, bool_or(n.due_at > (SELECT {clock}()) OR n.due_at IS NOT NULL AND n.attempts > 0) OVER (ORDER BY n.position) AS behind
          FROM (
            SELECT w.position, w.destination, w.due_at, w.attempts
              FROM {outbox_waiting} w
             WHERE w.key <> '' AND NOT w.alone
               AND w.topic = l.topic AND w.key = l.key AND w.destination = l.destination AND w.position > l.position AND w.position < l.barrier
               AND (w.due_at IS NOT NULL OR w.` + notHeld + rowNotHeld + `)
             ORDER BY w.position
             LIMIT (SELECT greatest(` + leastOfKey + `, $2 / greatest(count(*), 1)) FROM leader)) n) f
     WHERE f.due_at IS NULL AND f.behind IS NOT TRUE
       AND l.position = (SELECT min(e.position) FROM {outbox_waiting} e
                          WHERE e.key <> '' AND NOT e.alone AND e.topic = l.topic AND e.key = l.key AND e.destination = l.destination)
)
SELECT w.lane, w.position, w.destination, w.attempts, w.life, false AS blocked, NULL::float8 AS delay_ms,
       extract(epoch FROM w.expires_at - (SELECT {clock}()))::float8 * 1000 AS expires_ms, {w.message}
  FROM (SELECT position, destination FROM due ORDER BY position LIMIT $2) due
 CROSS JOIN LATERAL (SELECT * FROM {outbox_waiting} w WHERE w.position = due.position AND w.destination = due.destination LIMIT 1) w
 ORDER BY w.position`

// claimPageSQL reads what was never tried of all lanes of a relay ($1) in the order of its position, in each lane above a
// position of its own ($2), above the lowest of these ($5). Safe with several relays because each reads only lanes that
// it owns; served by the primary key. A relay that owns few lanes walks over the rows of the others.
//
// If the planner knew the limit it might think that all is wanted, and read and sort it: it comes
// through a sub-select, of which the planner assumes that a part of the rows will do.
//
// The first row is the look of [cursors]. Its parts are made in the order that cursors needs:
// the snapshot was taken before all of them; the last position is read before pg_locks,
// because the sub-select of the writers refers to it and so runs for a row of drawn; and both
// are MATERIALIZED, so that neither is folded into the other. The last position is asked of a function, which locks the
// page of the sequence: while nextval logs what it draws, the row says up to 32 positions more.
// The function locks the sequence, too, as a writer does; the look leaves itself out.
const claimPageSQL = `
WITH drawn AS MATERIALIZED (
    SELECT seq AS sequence, coalesce(pg_sequence_last_value(seq), 0) AS last FROM (SELECT {outbox_position_seq_text}::regclass) AS s(seq)
), look AS MATERIALIZED (
    SELECT json_build_object(
               'server', extract(epoch FROM pg_postmaster_start_time())::text,
               'session', pg_backend_pid(),
               'last', d.last,
               'waits', (SELECT position FROM {outbox_waiting} ORDER BY position LIMIT 1) IS NOT NULL
                         OR (SELECT number FROM {dead_letters} WHERE parks ORDER BY topic, key, destination, position LIMIT 1) IS NOT NULL,
               'writers', ARRAY(
                   SELECT virtualtransaction FROM pg_locks
                    WHERE d.last IS NOT NULL AND locktype = 'relation' AND mode = 'RowExclusiveLock' AND relation = d.sequence
                      AND pid IS DISTINCT FROM pg_backend_pid() AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
           )::text AS seen
      FROM drawn d
), rows AS (
    SELECT * FROM {outbox} o
     WHERE o.position > $5 AND o.position > ` + aboveOfLane + ` AND o.` + notHeld + `
     ORDER BY o.position LIMIT (SELECT $3::bigint)
)
SELECT look.seen, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, {no.message} FROM look
UNION ALL
SELECT NULL, o.lane, o.position, '', 0, 0, false,
       CASE WHEN o.deliver_at > (SELECT {clock}()) THEN extract(epoch FROM o.deliver_at - (SELECT {clock}())) * 1000 END::float8,
       extract(epoch FROM o.expires_at - (SELECT {clock}()))::float8 * 1000, {o.message}
  FROM rows o`

// aboveOfLane is where the page begins in the lane of a row o: behind the last position there is, if the
// relay does not own the lane at its epoch ($6). Made once; nobody gives a lane out of range and a position.
const aboveOfLane = `(SELECT array_agg(coalesce(l.above, 9223372036854775807) ORDER BY r.lane)
                             FROM {relay_lanes} r LEFT JOIN unnest($1::int[], $2::bigint[], $6::bigint[]) AS l(lane, above, epoch) USING (lane, epoch))[o.lane + 1]`

// claimBlockedSQL returns which of the units are blocked, counted from 1. Served by the indexes
// on (topic, key, …), whatever their number: the planner cannot see how long an array is that
// comes through a sub-select, and takes it for short.
const claimBlockedSQL = `
SELECT i.number
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[])) WITH ORDINALITY AS i(topic, key, number)
 WHERE ` + blockedSQL

// ClaimMessages implements [contract.Source]: with one statement for a page of the outbox, most
// often. If something waits there is one more for that, if req.Due is set, and one more if
// there are keys of which the store does not know that nothing of them waits. Claims of one store object run
// one after the other.
func (s *Store[Tx]) ClaimMessages(ctx context.Context, req contract.ClaimRequest) (claims []contract.Claim, err error) {
	if len(req.Lanes) == 0 {
		return []contract.Claim{}, nil
	}
	select {
	case s.claiming <- struct{}{}:
		defer func() { <-s.claiming }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
		c := claimer[Tx]{Store: s, conn: conn, req: req}
		claims, err = c.claim(ctx)
		return err
	})
	if err != nil {
		s.cursors.forget() // what was read and not returned must be read again
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	s.sleeper.found(len(claims), time.Now())
	return claims, nil
}

// claimer makes one claim.
type claimer[Tx any] struct {
	*Store[Tx]
	conn  sqldb.Conn
	req   contract.ClaimRequest
	waits bool // whether anything waits, as the last page has shown
}

// claim reads what is due before what was never tried if something waited at the claim
// before, else after it, if the page shows that something waits now.
func (c *claimer[Tx]) claim(ctx context.Context) (claims []contract.Claim, err error) {
	c.cursors.begin(c.req.Lanes, c.req.Again)
	if c.req.Due && (c.waited || c.req.DueOnly) {
		if claims, err = c.claimDue(ctx, c.req); err != nil || c.req.Full(claims) || c.req.DueOnly {
			return claims, err
		}
	}
	ready, err := c.claimReady(ctx, rest(c.req, claims))
	if err == nil && c.waits {
		err = c.markBlocked(ctx, ready)
	}
	if err == nil && c.req.Due && !c.waited && c.waits && !c.req.Full(ready) {
		claims, err = c.claimDue(ctx, rest(c.req, ready))
	}
	c.waited = c.waits
	if err != nil || len(claims) == 0 {
		return ready, err
	}
	return append(claims, ready...), nil
}

// rest is what a request, which is not full, leaves for another statement.
func rest(req contract.ClaimRequest, claims []contract.Claim) contract.ClaimRequest {
	req.Limit, req.Bytes = req.Limit-len(claims), req.Left(claims)
	return req
}

// timestamp lets pgx write a time where it belongs.
type timestamp struct{ *sqldb.Time }

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (t timestamp) ScanTimestamptz(v pgtype.Timestamptz) error {
	if t.Time.Time = v.Time; v.InfinityModifier != pgtype.Finite {
		return errors.New("a time is infinite")
	}
	return nil
}

func newClaimScanner(lanes []contract.Lane, first ...any) *sqlstore.ClaimScanner {
	return sqlstore.NewClaimScanner(lanes, first...).Times(func(t *sqldb.Time) any { return timestamp{t} })
}

// stoppable returns a context for a query that may be stopped before its end. That costs the
// connection, and so is left out in a transaction.
func (c *claimer[Tx]) stoppable(ctx context.Context) (context.Context, func()) {
	if c.db.plain.Load() {
		return context.WithCancel(ctx)
	}
	return ctx, func() {}
}

func numbersAndEpochs(lanes []contract.Lane) ([]int, []int64) {
	return column(lanes, func(l contract.Lane) int { return l.Number }), column(lanes, func(l contract.Lane) int64 { return l.Epoch })
}

func (c *claimer[Tx]) claimDue(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	numbers, epochs := numbersAndEpochs(req.Lanes)
	positions, held := req.HeldWaiting()
	rows, err := c.conn.Query(ctx, c.sql.claimDue, numbers, req.Limit, append([]string{}, req.Paused...), positions, held, epochs)
	due, err := newClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
	for i := range due {
		due[i].Waiting = true
	}
	return due, err
}

// claimReady reads a page, and once more if the first one can't be used.
func (c *claimer[Tx]) claimReady(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	for patience := youngWriter; ; patience *= 64 { // an old writer has ended: suspect older ones, too
		p := c.cursors.page(req.Lanes, req.Limit, patience, time.Now())
		claims, seen, err := c.readPage(ctx, p, req.Bytes)
		if err != nil {
			return nil, err
		}
		if req.Full(claims) {
			p.limit = len(claims) // what is behind the last of them was not read
		}
		c.waits = seen.Waits
		if c.cursors.took(p, claims, seen, time.Now()) {
			return claims, nil
		}
	}
}

// readPage reads a page, up to a number of bytes.
func (c *claimer[Tx]) readPage(ctx context.Context, p page, bytes int) (claims []contract.Claim, seen look, err error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	least := slices.Min(p.from)
	held := slices.DeleteFunc(append([]int64{}, c.req.Held...), func(n int64) bool { return n <= least })
	numbers, epochs := numbersAndEpochs(p.lanes)
	rows, err := c.conn.Query(ctx, c.sql.claimPage, numbers, p.from, p.limit, held, least, epochs)
	if err != nil {
		return nil, seen, err
	}
	scanner := newClaimScanner(p.lanes, new(any)) // the look, NULL beside a message
	if seen, err = scanLook(rows, scanner.Columns()); err != nil {
		rows.Close()
		return nil, seen, err
	}
	claims, err = scanner.Read(make([]contract.Claim, 0, c.expected(p.limit)), bytes, stop, rows, nil)
	c.found = len(claims)
	return claims, seen, err
}

// expected returns how many rows a page will probably have: about as many as the one before.
func (c *claimer[Tx]) expected(limit int) int { return min(limit, c.found+c.found/4) }

// scanLook reads the first row of a page, which has the look in its first column.
func scanLook(rows sqldb.Rows, columns int) (seen look, err error) {
	if !rows.Next() {
		return seen, errors.Join(rows.Err(), errors.New("a page without a look"))
	}
	var text string
	dest := []any{&text}
	for len(dest) < columns {
		dest = append(dest, new(any))
	}
	if err = rows.Scan(dest...); err != nil {
		return seen, err
	}
	return seen, json.Unmarshal([]byte(text), &seen)
}

// markBlocked marks the claims of units of which something waits.
func (c *claimer[Tx]) markBlocked(ctx context.Context, claims []contract.Claim) error {
	units := c.clean.unknown(claims)
	blocked := make(map[cleanUnit]bool)
	if len(units) > 0 {
		rows, err := c.conn.Query(ctx, c.sql.claimBlocked,
			column(units, func(u cleanUnit) string { return u.topic }), column(units, func(u cleanUnit) string { return u.key }))
		numbers, err := sqldb.Collect(rows, err, sqldb.Scan[int])
		if err != nil {
			return err
		}
		for _, n := range numbers {
			blocked[units[n-1]] = true
		}
	}
	c.clean.add(slices.DeleteFunc(units, func(u cleanUnit) bool { return blocked[u] }))
	for i := range claims {
		claims[i].Blocked = blocked[cleanUnitOf(&claims[i])]
	}
	return nil
}
