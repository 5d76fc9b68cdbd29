package sqlitestore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/relay"
)

// fenceSQL is asked in a transaction that has the write lock: no lane changes hands before it
// ends.
const fenceSQL = `SELECT lane, epoch FROM {relay_lanes} WHERE owner = $1`

// The statements about what came straight from the outbox and is published take all
// positions at once.
const (
	archiveSQL = `
INSERT INTO {outbox_archive} (published_at, position, destination, {message})
SELECT {now}, o.position, d.value, {o.message}
  FROM json_each($1) p JOIN json_each($2) d ON d.key = p.key JOIN {outbox} o ON o.position = p.value`

	removeSQL = `DELETE FROM {outbox} WHERE position IN (SELECT value FROM json_each($1))`
)

// The statements about waiting rows take one row at a time: $1 is its position, $2 its
// destination. See settleplan.Plan for what each is to do.
var (
	parkSQL = `
INSERT INTO {outbox_waiting} (position, {message}, destination, due_at, attempts, life, error, first_failed_at, alone, history)
SELECT o.position, {o.message}, $2,
       CASE WHEN $3 OR NOT $8 AND ` + behindSQL("o", "$2") + ` THEN NULL ELSE {now} + CAST($4 * 1000 AS INTEGER) END,
       $5, $6, $7, CASE WHEN $5 > 0 THEN {now} END, $8, CASE WHEN $5 > 0 THEN ` + withAttempt("NULL", "$9", "$10", "$7") + ` END
  FROM {outbox} o WHERE o.position = $1
ON CONFLICT DO NOTHING`

	retrySQL = `
UPDATE {outbox_waiting} AS w
   SET due_at = CASE WHEN $3 OR NOT $8 AND ` + behindSQL("w", "w.destination") + ` THEN NULL ELSE {now} + CAST($4 * 1000 AS INTEGER) END,
       alone = $8, attempts = $5, life = $6, error = CASE WHEN $3 AND $7 = '' THEN w.error ELSE $7 END,
       first_failed_at = CASE WHEN $5 > 0 THEN coalesce(w.first_failed_at, {now}) END,
       history = CASE WHEN $5 > w.attempts THEN ` + withAttempt("w.history", "$9", "$10", "$7") + ` ELSE w.history END
 WHERE w.position = $1 AND w.destination = $2`
)

var burySQL = `
INSERT INTO {dead_letters} (origin, position, destination, life, replay, {message}, reason, error, attempts, failed, parks, fingerprint, history, first_failed_at, last_failed_at)
SELECT 'relay', w.position, w.destination, w.life, w.replay, {w.message}, $3, $4, $5, $6, $7, $8,
       CASE WHEN $5 > w.attempts THEN ` + withAttempt("w.history", "$9", "$10", "$4") + ` ELSE w.history END, coalesce(w.first_failed_at, {now}), {now}
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2`

const (
	followSQL = `
INSERT INTO {outbox_waiting} (position, {message}, destination, due_at)
SELECT w.position, {w.message}, $3, CASE WHEN w.key = '' THEN {now} END
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2
ON CONFLICT DO NOTHING`

	archiveWaitingSQL = `
INSERT INTO {outbox_archive} (published_at, position, destination, attempts, life, {message})
SELECT {now}, w.position, w.destination, w.attempts, w.life, {w.message}
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2`

	scheduleSQL = `
INSERT INTO {scheduled} (position, {message}, due_at)
SELECT w.position, {w.message}, w.deliver_at FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2`

	deleteWaitingSQL = `DELETE FROM {outbox_waiting} WHERE position = $1 AND destination = $2`
)

// SettleMessages implements [relay.Source].
func (s *Store) SettleMessages(ctx context.Context, req relay.SettleRequest) ([]int, error) {
	var held []int
	err := s.core.InTx(ctx, func(_ *sql.Tx, conn sqldb.Conn) (err error) {
		if held, err = s.held(ctx, conn, req); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		b := &settleBatch{Store: s, ctx: ctx, conn: conn, node: req.Node, archive: req.Archive}
		if b.do(settleplan.New(settleplan.Keep(req.Settlements, held))); b.err != nil {
			return fmt.Errorf("settle %d messages: %w", len(req.Settlements), b.err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settleplan.Lost(req.Settlements, held), nil
}

// held returns the lanes of the settlements that the node still owns at their epochs.
func (s *Store) held(ctx context.Context, conn sqldb.Conn, req relay.SettleRequest) ([]int, error) {
	rows, err := conn.Query(ctx, s.sql.fence, req.Node)
	owned, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (l relay.Lane, err error) {
		err = r.Scan(&l.Number, &l.Epoch)
		return l, err
	})
	return settleplan.Held(req.Settlements, owned), err
}

// settleBatch runs the statements of a plan. The first error stops it.
type settleBatch struct {
	*Store
	ctx     context.Context
	conn    sqldb.Conn
	node    string
	archive bool
	err     error
}

func (b *settleBatch) exec(stmt string, args ...any) {
	if b.err == nil {
		_, b.err = b.conn.Exec(b.ctx, stmt, args...)
	}
}

func (b *settleBatch) do(p *settleplan.Plan) {
	b.published(p.Published)
	b.park(p.Park)
	for _, r := range p.Follow {
		b.exec(b.sql.follow, r.Position, r.Destination, r.Follower)
	}
	for _, r := range p.Done {
		if b.archive {
			b.exec(b.sql.archiveWaiting, r.Position, r.Destination)
		}
		b.exec(b.sql.deleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Bury {
		b.exec(b.sql.bury, r.Position, r.Destination, string(r.Reason), r.Error, r.Attempts, r.Failed, r.Parks, r.Fingerprint, b.node, int64(r.Took))
		b.exec(b.sql.deleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Schedule {
		b.exec(b.sql.schedule, r.Position, r.Destination)
		b.exec(b.sql.deleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Retry {
		b.exec(b.sql.retry, r.Position, r.Destination, r.Behind, sqlstore.Millis(r.After), r.Attempts, r.Life, r.Error, r.Alone, b.node, int64(r.Took))
	}
	for _, u := range p.Promote {
		b.exec(b.sql.promote, u.Topic, u.Key, u.Destination)
	}
}

func (b *settleBatch) published(list []relay.Settlement) {
	if len(list) == 0 {
		return
	}
	positions, destinations := make([]int64, len(list)), make([]string, len(list))
	for i, st := range list {
		positions[i], destinations[i] = st.Claim.Position, st.Claim.Destination
	}
	if b.archive {
		b.exec(b.sql.archive, positions, destinations)
	}
	b.exec(b.sql.remove, positions)
}

func (b *settleBatch) park(rows []settleplan.Row) {
	if len(rows) == 0 {
		return
	}
	positions := make([]int64, len(rows))
	for i, r := range rows {
		positions[i] = r.Position
		b.exec(b.sql.park, r.Position, r.Destination, r.Behind, sqlstore.Millis(r.After), r.Attempts, r.Life, r.Error, r.Alone, b.node, int64(r.Took))
	}
	b.exec(b.sql.remove, positions)
}
