package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// SettleStatements are the SQL texts of a store that settles with [Core.SettleByRow].
type SettleStatements struct {
	Fence       string // takes a node; returns number and epoch of its lanes, which stay its own until the transaction ends
	Remove      string // takes positions of the outbox
	HoldLetters string `sql:",optional"` // takes a unit; empty if there is only one writer anyway
	Promote     string // takes a unit

	// These take positions, the destination that the rows have in common, and then what [settler] passes.
	Archive, Park, Follow, ArchiveWaiting, DeleteWaiting string

	// These take the position and the destination of one waiting row, and then what [settler] passes.
	Retry, Bury, Schedule string
}

// SettleByRow does what [contract.Source] says of SettleMessages: with two statements for a batch that was published as a whole,
// and one more for each destination with an archive. What waits, because its key or its destination does, takes
// one for each destination to be parked, two to be published, and two for each key; what has failed takes some
// for each row.
func (c *Core[Tx]) SettleByRow(ctx context.Context, sql SettleStatements, req contract.SettleRequest) ([]int, error) {
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
func heldLanes(ctx context.Context, conn sqldb.Conn, fence string, req contract.SettleRequest) ([]int, error) {
	rows, err := conn.Query(ctx, fence, req.Node)
	owned, err := sqldb.Collect(rows, err, func(r sqldb.Rows) (l contract.Lane, err error) {
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
	alike(p.Park, outcome, func(r settleplan.Row, positions []int64) { s.again(s.sql.Park, positions, r) })
	alike(p.Park, anyOf, func(_ settleplan.Row, positions []int64) { s.exec(s.sql.Remove, positions) })
	alike(p.Follow, follower, func(r settleplan.Row, positions []int64) {
		s.exec(s.sql.Follow, positions, r.Destination, r.Follower)
	})
	if s.archive {
		alike(p.Done, destination, func(r settleplan.Row, positions []int64) { s.exec(s.sql.ArchiveWaiting, positions, r.Destination) })
	}
	for _, r := range p.Bury {
		s.exec(s.sql.Bury, r.Position, r.Destination, string(r.Reason), r.Error, r.Attempts, r.Failed, r.Parks, r.Fingerprint, s.node, int64(r.Took))
	}
	for _, r := range p.Schedule {
		s.exec(s.sql.Schedule, r.Position, r.Destination)
	}
	alike(slices.Concat(p.Done, p.Routed, p.Bury, p.Schedule), destination, func(r settleplan.Row, positions []int64) {
		s.exec(s.sql.DeleteWaiting, positions, r.Destination)
	})
	for _, r := range p.Retry {
		s.again(s.sql.Retry, r.Position, r)
	}
	s.units(s.sql.Promote, p.Promote)
}

// alike calls do once for all rows for which what returns the same value, in the order of the first ones, with
// that value and their positions.
func alike(rows []settleplan.Row, what func(settleplan.Row) settleplan.Row, do func(r settleplan.Row, positions []int64)) {
	var order []settleplan.Row
	positions := make(map[settleplan.Row][]int64)
	for _, r := range rows {
		of := what(r)
		if positions[of] == nil {
			order = append(order, of)
		}
		positions[of] = append(positions[of], r.Position)
	}
	for _, of := range order {
		do(of, positions[of])
	}
}

// What rows have in common that one statement is for.
func anyOf(settleplan.Row) (r settleplan.Row) { return r }

func destination(r settleplan.Row) settleplan.Row { return settleplan.Row{Destination: r.Destination} }

func follower(r settleplan.Row) settleplan.Row {
	return settleplan.Row{Destination: r.Destination, Follower: r.Follower}
}

func outcome(r settleplan.Row) settleplan.Row {
	r.Lane, r.Position, r.ID = 0, 0, ""
	return r
}

func (s *settler) published(list []contract.Settlement) {
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

// again records when rows are retried, and the result of the last attempt; which is one position or several.
func (s *settler) again(stmt string, which any, r settleplan.Row) {
	s.exec(stmt, which, r.Destination, r.Behind, Millis(r.After), r.Attempts, r.Life, r.Error, r.Alone, s.node, int64(r.Took))
}

func (s *settler) units(stmt string, units []settleplan.Unit) {
	for _, u := range units {
		s.exec(stmt, u.Topic, u.Key, u.Destination)
	}
}
