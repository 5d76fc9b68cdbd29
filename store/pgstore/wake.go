package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// AwaitMessages implements [contract.Source]. Commits of this store object that it knows of end
// the wait without the database. For all others, writers are asked to notify, which the outbox's
// trigger does, while that costs them little; beyond that the wait is a few milliseconds. Without a
// connection to listen on, what others commit waits for the poll.
func (s *engine[Tx]) AwaitMessages(ctx context.Context, node string) error {
	err := s.await(ctx, node)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return s.core.Kind(fmt.Errorf("await messages: %w", err))
}

func (s *engine[Tx]) await(ctx context.Context, node string) error {
	signals, isNew := s.core.Signals.Join(node)
	if isNew {
		s.listener.add()
		return nil
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := s.sleeper.takeError(); err != nil {
		return err
	}
	step := s.sleeper.next(time.Now())
	if step.announce {
		return s.announce(ctx)
	}
	t := time.NewTimer(step.wait)
	defer t.Stop()
	select {
	case <-signals:
		return nil
	case <-ctx.Done():
		return nil
	case <-t.C:
	}
	if step.look {
		return s.lookAgain(ctx)
	}
	return nil
}

// announce asks writers to notify, and then lists those that may have enqueued before they were
// asked. The caller claims once more before it sleeps, for those that have committed already.
func (s *engine[Tx]) announce(ctx context.Context) error {
	now, withdrawals := time.Now(), s.sleeper.withdrawals()
	if _, err := s.core.DB.Exec(ctx, s.sql.Announce, s.names.render("{wakeups}"), int(announcementTTL.Seconds())); err != nil {
		return err
	}
	open, err := s.openEnqueuers(ctx)
	if err != nil {
		return err
	}
	s.sleeper.announced(now, withdrawals, open)
	return nil
}

// lookAgain strikes off those of the early writers that have ended.
func (s *engine[Tx]) lookAgain(ctx context.Context) error {
	open, err := s.openEnqueuers(ctx)
	if err == nil {
		s.sleeper.stillOpen(open)
	}
	return err
}

func (s *engine[Tx]) openEnqueuers(ctx context.Context) ([]string, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.OpenEnqueuers, s.names.render("{outbox}"))
	return sqldb.Collect(rows, err, sqldb.Scan[string])
}

// LeaveLanes implements [contract.Source]. The connection to listen on is closed when the last
// node that waited on this store object has left. When no relay is left anywhere, writers are asked
// to stop notifying.
func (s *engine[Tx]) LeaveLanes(ctx context.Context, node string) error {
	if s.core.Signals.Leave(node) {
		s.listener.remove()
	}
	if err := s.core.LeaveLanes(ctx, node); err != nil {
		return err
	}
	n, err := s.core.DB.Exec(ctx, s.sql.WithdrawLast)
	if n > 0 {
		s.sleeper.withdraw(time.Now())
	}
	return s.core.Kind(err)
}
