package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// ReplayStatements are the SQL texts about bulk replays. In those that look for dead letters
// {where} stands for the condition on what a replay requeues; its arguments follow the other ones.
type ReplayStatements struct {
	Preview      string // takes milliseconds; counts dead letters, keys, those older than that, and returns the first failure
	Start        string // takes plan, actor and reason; returns the number
	Started      string `sql:",optional"` // returns the number if Start cannot; else empty
	NextLetters  string // returns numbers
	Read, Lock   string // take a number; Lock finds nothing while another transaction has locked it
	List         string // takes a limit
	Save, Cancel string // Save takes number, passed, requeued, skipped, state and problem; Cancel a number
}

// replayable returns the condition that a replay requeues a dead letter, after other arguments.
// What is in flight is left out: its outcome is not known yet.
func (c *Core[Tx]) replayable(f deadletter.Filter, args ...any) *where {
	w := c.where(args...)
	w.match(f)
	w.conditions = append(w.conditions, "requeued_at IS NULL")
	return w
}

// queryLetters runs one of the statements that look for dead letters.
func (c *Core[Tx]) queryLetters(ctx context.Context, conn sqldb.Conn, stmt string, w *where) (sqldb.Rows, error) {
	return conn.Query(ctx, strings.ReplaceAll(stmt, "{where}", c.Render(w.sql())), w.args...)
}

// PreviewReplay implements [deadletter.ReplayStore].
func (c *Core[Tx]) PreviewReplay(ctx context.Context, f deadletter.Filter, inboxRetention time.Duration) (deadletter.Preview, error) {
	if err := (deadletter.Plan{Filter: f}).Check(); err != nil {
		return deadletter.Preview{}, err
	}
	var p deadletter.Preview
	err := c.plannedAfresh(ctx, func(conn sqldb.Conn) error {
		list, err := c.queryLetters(ctx, conn, c.SQL.Replays.Preview, c.replayable(f, Millis(inboxRetention)))
		p, _, err = sqldb.One(list, err, scanPreview)
		return err
	})
	return p, c.Kind(err)
}

func scanPreview(r sqldb.Rows) (p deadletter.Preview, err error) {
	var oldest sqldb.Time
	err = r.Scan(&p.Letters, &p.Keys, &p.Unprotected, &oldest)
	p.Oldest = oldest.UTC()
	return p, err
}

// StartReplay implements [deadletter.ReplayStore].
func (c *Core[Tx]) StartReplay(ctx context.Context, p deadletter.Plan, act deadletter.Act) (number int64, err error) {
	if err := p.Check(); err != nil {
		return 0, err
	}
	if err := act.Check(); err != nil {
		return 0, err
	}
	p = p.Complete()
	plan, err := json.Marshal(p)
	if err != nil {
		return 0, fmt.Errorf("plan of a replay: %w", err)
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		list, err := c.queryLetters(ctx, conn, c.SQL.Replays.Start, c.replayable(p.Filter, string(plan), act.By, act.Why))
		if err == nil && c.SQL.Replays.Started != "" {
			list.Close() // it has none
			list, err = conn.Query(ctx, c.SQL.Replays.Started)
		}
		if number, _, err = sqldb.One(list, err, sqldb.Scan[int64]); err != nil {
			return fmt.Errorf("start a replay: %w", err)
		}
		return c.audit(ctx, conn, deadletter.ActReplay, act, deadletter.Entry{Replay: number})
	})
	return number, err
}

// Replay implements [deadletter.ReplayStore].
func (c *Core[Tx]) Replay(ctx context.Context, number int64) (deadletter.Replay, error) {
	r, found, err := c.readReplay(ctx, c.DB, c.SQL.Replays.Read, number)
	if err == nil && !found {
		err = fmt.Errorf("replay %d: %w", number, waybill.ErrNotFound)
	}
	return r.Replay, c.Kind(err)
}

func (c *Core[Tx]) readReplay(ctx context.Context, conn sqldb.Conn, stmt string, number int64) (rows.Replay, bool, error) {
	list, err := conn.Query(ctx, stmt, number)
	return sqldb.One(list, err, scanReplay)
}

func scanReplay(from sqldb.Rows) (r rows.Replay, err error) {
	var plan string
	var started, ended sqldb.Time
	err = from.Scan(&r.Number, &plan, &r.Act.By, &r.Act.Why, &r.State, &r.Letters, &r.Requeued, &r.Skipped, &r.Failed,
		&r.Problem, &started, &ended, &r.Passed, &r.UpTo)
	if err != nil {
		return r, err
	}
	r.StartedAt, r.EndedAt = started.UTC(), ended.Pointer()
	if err := json.Unmarshal([]byte(plan), &r.Plan); err != nil {
		return r, fmt.Errorf("plan of replay %d: %w", r.Number, err)
	}
	return r, nil
}

// Replays implements [deadletter.ReplayStore].
func (c *Core[Tx]) Replays(ctx context.Context, limit int) ([]deadletter.Replay, error) {
	found, err := c.DB.Query(ctx, c.SQL.Replays.List, limit)
	list, err := sqldb.Collect(found, err, func(r sqldb.Rows) (deadletter.Replay, error) {
		read, err := scanReplay(r)
		return read.Replay, err
	})
	return list, c.Kind(err)
}

// AdvanceReplay implements [deadletter.ReplayStore]. The cursor moves in the transaction that
// requeues the dead letters: whatever ends it early, none is requeued twice, and none is skipped.
func (c *Core[Tx]) AdvanceReplay(ctx context.Context, number int64, n int) (deadletter.Replay, error) {
	var r rows.Replay
	var locked bool
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		r, locked, err = c.readReplay(ctx, conn, c.SQL.Replays.Lock, number)
		if err != nil || !locked || r.State != deadletter.Running {
			return err
		}
		if err := c.advance(ctx, conn, &r, max(n, 0)); err != nil {
			return fmt.Errorf("advance replay %d: %w", number, err)
		}
		r, _, err = c.readReplay(ctx, conn, c.SQL.Replays.Read, number)
		return err
	})
	switch {
	case err != nil:
		return deadletter.Replay{}, err
	case !locked:
		return c.Replay(ctx, number) // another process advances it, or there is none
	}
	c.WakeRelay()
	return r.Replay, nil
}

// advance requeues the next n dead letters, and looks for one more to know whether that is all.
func (c *Core[Tx]) advance(ctx context.Context, conn sqldb.Conn, r *rows.Replay, n int) error {
	if r.Stops() {
		return c.saveReplay(ctx, conn, r)
	}
	letters, err := c.nextLetters(ctx, conn, r, n+1)
	if err != nil {
		return err
	}
	for _, number := range letters[:min(n, len(letters))] {
		if err := c.advanceOver(ctx, conn, r, number); err != nil {
			return err
		}
	}
	if len(letters) <= n {
		r.End()
	}
	return c.saveReplay(ctx, conn, r)
}

// nextLetters returns the numbers of the dead letters after the last one that was passed.
func (c *Core[Tx]) nextLetters(ctx context.Context, conn sqldb.Conn, r *rows.Replay, limit int) ([]int64, error) {
	w := c.replayable(r.Plan.Filter)
	w.add("number > ?", r.Passed)
	w.add("number <= ?", r.UpTo)
	w.end = fmt.Sprintf(" ORDER BY number LIMIT %d", limit)
	list, err := c.queryLetters(ctx, conn, c.SQL.Replays.NextLetters, w)
	return sqldb.Collect(list, err, sqldb.Scan[int64])
}

// advanceOver requeues a dead letter, or skips it if that is not possible.
func (c *Core[Tx]) advanceOver(ctx context.Context, conn sqldb.Conn, r *rows.Replay, number int64) error {
	l, err := c.lockLetter(ctx, conn, number)
	requeued := false
	if err == nil {
		requeued, err = rows.May(deadletter.ActRequeue, l.LetterState)
	}
	if requeued {
		requeued, err = c.requeue(ctx, conn, l, r.Number)
	}
	if err := r.Pass(number, requeued, err); err != nil || !requeued {
		return err
	}
	return c.audit(ctx, conn, deadletter.ActRequeue, r.Act, deadletter.Entry{Letter: number, MessageID: l.messageID, Replay: r.Number})
}

func (c *Core[Tx]) saveReplay(ctx context.Context, conn sqldb.Conn, r *rows.Replay) error {
	_, err := conn.Exec(ctx, c.SQL.Replays.Save, r.Number, r.Passed, r.Requeued, r.Skipped, string(r.State), r.Problem)
	return err
}

// CancelReplay implements [deadletter.ReplayStore].
func (c *Core[Tx]) CancelReplay(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
	if err := act.Check(); err != nil {
		return false, err
	}
	var n int64
	err := c.InTx(ctx, func(_ Tx, conn sqldb.Conn) (err error) {
		if n, err = conn.Exec(ctx, c.SQL.Replays.Cancel, number); err != nil || n == 0 {
			return err
		}
		return c.audit(ctx, conn, deadletter.ActCancel, act, deadletter.Entry{Replay: number})
	})
	if err == nil && n == 0 {
		_, err = c.Replay(ctx, number)
	}
	return err == nil && n > 0, err
}
