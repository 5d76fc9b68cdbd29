package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
	"github.com/waybill-go/waybill/observe"
)

// SettleMessages implements [contract.Source]. A batch that was published as a whole takes one
// statement, everything else a transaction.
func (s *engine[Tx]) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
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

// settlePublished records what came straight from the outbox and is published.
func (s *engine[Tx]) settlePublished(ctx context.Context, conn sqldb.Conn, req contract.SettleRequest, list []contract.Settlement) ([]int, error) {
	lanes, epochs := lanesOf(list)
	numbers := column(list, func(st contract.Settlement) int32 { return int32(st.Claim.Lane.Number) }) // pgx boxes each int
	positions := column(list, func(st contract.Settlement) int64 { return st.Claim.Position })
	destinations := column(list, func(st contract.Settlement) string { return st.Claim.Destination })
	ids := column(list, func(st contract.Settlement) string { return st.Claim.Message.ID })
	stmt := s.sql.SettleDelete
	if req.Archive {
		stmt = s.sql.SettleArchive
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

// settleMixed records the settlements in the lanes that the relay still owns, which it locks first.
func (s *engine[Tx]) settleMixed(ctx context.Context, conn sqldb.Conn, req contract.SettleRequest) ([]int, error) {
	lanes, epochs := lanesOf(req.Settlements)
	rows, err := conn.Query(ctx, s.sql.Fence, req.Node, lanes, epochs)
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
func (s *engine[Tx]) settlePlan(ctx context.Context, conn sqldb.Conn, p *settleplan.Plan) error {
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
func (s *engine[Tx]) ReleaseScheduled(ctx context.Context, limit int) (int, error) {
	return sqlstore.ReleaseAround(limit, func(limit int) (int, error) { return s.releaseFirst(ctx, limit) }, func() error {
		_, err := s.core.DB.Exec(ctx, s.sql.Postpone)
		return s.core.Kind(err)
	})
}

// releaseFirst releases what is due first.
func (s *engine[Tx]) releaseFirst(ctx context.Context, limit int) (n int, err error) {
	err = s.db.run(ctx, func(conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, s.sql.AnyDue)
		if due, _, err := sqldb.One(rows, err, sqldb.Scan[bool]); err != nil || !due {
			return err
		}
		n, err = s.release(ctx, conn, s.sql.ReleaseScheduled, limit)
		return err
	})
	if err = s.core.Kind(err); sqlstore.RefusesRow(err) {
		return s.releaseEach(ctx, limit)
	}
	return n, err
}

// release runs a statement that releases messages.
func (s *engine[Tx]) release(ctx context.Context, conn sqldb.Conn, stmt string, arg any) (n int, err error) {
	rows, err := conn.Query(ctx, stmt, arg)
	refused := 0
	_, _, err = sqldb.One(rows, err, func(r sqldb.Rows) (struct{}, error) { return struct{}{}, r.Scan(&n, &refused) })
	if err == nil && refused > 0 {
		err = s.core.NameLetters(ctx, conn)
	}
	return n, err
}

// releaseEach releases messages one by one. What the outbox refuses becomes a dead letter.
func (s *engine[Tx]) releaseEach(ctx context.Context, limit int) (n int, err error) {
	rows, err := s.core.DB.Query(ctx, s.sql.DueScheduled, limit)
	positions, err := sqldb.Collect(rows, err, sqldb.Scan[int64])
	if err != nil {
		return 0, s.core.Kind(err)
	}
	for _, position := range positions {
		err := s.db.run(ctx, func(conn sqldb.Conn) error {
			_, err := s.release(ctx, conn, s.sql.ReleaseOne, position)
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

func (s *engine[Tx]) refuseScheduled(ctx context.Context, position int64, why error) error {
	err := s.db.run(ctx, func(conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, s.core.SQL.Cancel.Refuse, position, string(waybill.ReasonMalformed), observe.ErrorText(why))
		if err == nil {
			err = s.core.NameLetters(ctx, conn)
		}
		return err
	})
	return s.core.Kind(err)
}
