package sqlstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/relay"
)

// SettleStatements are the SQL texts of a store that settles with [Core.SettleByRow]. Those
// about a waiting row take its position and destination first, and then what [settler] says.
type SettleStatements struct {
	Fence                         string // takes a node; returns number and epoch of its lanes, which stay its own until the transaction ends
	Archive                       string // takes positions of the outbox, and the destination that they have in common
	Remove                        string // takes positions of the outbox
	HoldLetters                   string // takes a unit; empty if writers are one at a time anyway
	Park, Retry, Bury, Follow     string
	ArchiveWaiting, DeleteWaiting string
	Schedule                      string
	Promote                       string // takes a unit
}

// The statements about a waiting row that are the same in every store that settles by row.
const (
	ArchiveWaitingSQL = `
INSERT INTO {outbox_archive} (published_at, position, destination, attempts, life, {message})
SELECT {now}, w.position, w.destination, w.attempts, w.life, {w.message}
  FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2`

	ScheduleSQL = `
INSERT INTO {scheduled} (position, {message}, due_at)
SELECT w.position, {w.message}, w.deliver_at FROM {outbox_waiting} w WHERE w.position = $1 AND w.destination = $2`

	// LetterAgain is the number of the dead letter that a waiting row, w, is to be: the one it had before
	// it was requeued, or NULL for the next.
	LetterAgain = `CASE WHEN NOT EXISTS (SELECT 1 FROM {dead_letters} d WHERE d.number = w.letter) THEN w.letter END`

	DeleteWaitingSQL = `DELETE FROM {outbox_waiting} WHERE position = $1 AND destination = $2`
)

// SettleByRow does what [relay.Source] says of SettleMessages: with two statements for a batch
// that was published as a whole, one more for each destination with an archive, and some more
// for each other row.
func (c *Core[Tx]) SettleByRow(ctx context.Context, sql SettleStatements, req relay.SettleRequest) ([]int, error) {
	var held []int
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if held, err = heldLanes(ctx, conn, sql.Fence, req); err != nil {
			return fmt.Errorf("fence: %w", err)
		}
		s := &settler{ctx: ctx, conn: conn, sql: sql, node: req.Node, archive: req.Archive}
		if s.settle(settleplan.New(settleplan.Keep(req.Settlements, held))); s.err != nil {
			return fmt.Errorf("settle %d messages: %w", len(req.Settlements), s.err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return settleplan.Lost(req.Settlements, held), nil
}

// SettlePlan returns [Core.Settle] for a store that settles by row.
func SettlePlan(sql SettleStatements) func(ctx context.Context, conn sqldb.Conn, p *settleplan.Plan) error {
	return func(ctx context.Context, conn sqldb.Conn, p *settleplan.Plan) error {
		s := &settler{ctx: ctx, conn: conn, sql: sql}
		s.settle(p)
		return s.err
	}
}

// heldLanes returns the lanes of the settlements that the node still owns at their epochs.
func heldLanes(ctx context.Context, conn sqldb.Conn, fence string, req relay.SettleRequest) ([]int, error) {
	rows, err := conn.Query(ctx, fence, req.Node)
	owned, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (l relay.Lane, err error) {
		err = r.Scan(&l.Number, &l.Epoch)
		return l, err
	})
	return settleplan.Held(req.Settlements, owned), err
}

// settler runs the statements of a plan. The first error stops it.
type settler struct {
	ctx     context.Context
	conn    sqldb.Conn
	sql     SettleStatements
	node    string
	archive bool
	err     error
}

func (s *settler) exec(stmt string, args ...any) {
	if s.err == nil {
		_, s.err = s.conn.Exec(s.ctx, stmt, args...)
	}
}

func (s *settler) settle(p *settleplan.Plan) {
	s.published(p.Published)
	if s.sql.HoldLetters != "" {
		s.units(s.sql.HoldLetters, p.Promote)
	}
	s.park(p.Park)
	for _, r := range p.Follow {
		s.exec(s.sql.Follow, r.Position, r.Destination, r.Follower)
	}
	for _, r := range p.Done {
		if s.archive {
			s.exec(s.sql.ArchiveWaiting, r.Position, r.Destination)
		}
		s.exec(s.sql.DeleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Routed {
		s.exec(s.sql.DeleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Bury {
		s.exec(s.sql.Bury, r.Position, r.Destination, string(r.Reason), r.Error, r.Attempts, r.Failed, r.Parks, r.Fingerprint, s.node, int64(r.Took))
		s.exec(s.sql.DeleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Schedule {
		s.exec(s.sql.Schedule, r.Position, r.Destination)
		s.exec(s.sql.DeleteWaiting, r.Position, r.Destination)
	}
	for _, r := range p.Retry {
		s.again(s.sql.Retry, r)
	}
	s.units(s.sql.Promote, p.Promote)
}

func (s *settler) published(list []relay.Settlement) {
	if len(list) == 0 {
		return
	}
	positions, destinations := make([]int64, len(list)), make(map[string][]int64)
	for i, st := range list {
		positions[i] = st.Claim.Position
		destinations[st.Claim.Destination] = append(destinations[st.Claim.Destination], st.Claim.Position)
	}
	if s.archive {
		for destination, of := range destinations {
			s.exec(s.sql.Archive, of, destination)
		}
	}
	s.exec(s.sql.Remove, positions)
}

func (s *settler) park(rows []settleplan.Row) {
	if len(rows) == 0 {
		return
	}
	positions := make([]int64, len(rows))
	for i, r := range rows {
		positions[i] = r.Position
		s.again(s.sql.Park, r)
	}
	s.exec(s.sql.Remove, positions)
}

// again says when a row is tried again, and what the last attempt has left.
func (s *settler) again(stmt string, r settleplan.Row) {
	s.exec(stmt, r.Position, r.Destination, r.Behind, Millis(r.After), r.Attempts, r.Life, r.Error, r.Alone, s.node, int64(r.Took))
}

func (s *settler) units(stmt string, units []settleplan.Unit) {
	for _, u := range units {
		s.exec(stmt, u.Topic, u.Key, u.Destination)
	}
}
