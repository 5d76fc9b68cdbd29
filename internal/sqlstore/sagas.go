package sqlstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// SagaStatements are the SQL texts about sagas.
type SagaStatements struct {
	// Add and Update take the arguments of [sagaArgs], and after these Add takes tenant, saga and key,
	// and Update number and version. They return what [scanWritten] reads, and no row if the store has
	// another version.
	Add, Update string

	// AddEntry takes number, version and time, and the arguments of [entryArgs]. It is empty if Add and
	// Update write the entry too, and take its arguments last.
	AddEntry string `sql:",optional"`

	// Written takes tenant, saga and key, and returns what Add and Update do. It is empty if they
	// return it themselves.
	Written string `sql:",optional"`

	Read, Lock string // take tenant, saga and key
	List       string // without conditions
	Entries    string // takes tenant, saga, key, a version and a limit
	Counts     string // returns saga, status, count and the age of the oldest change in seconds
}

func idArgs(id saga.ID) []any { return []any{id.Tenant, id.Saga, id.Key} }

// sagaArgs are what Add and Update write of an instance.
func sagaArgs(in *saga.Instance) ([]any, error) {
	progress, err := json.Marshal(in.Progress)
	if err != nil {
		return nil, fmt.Errorf("progress of a saga: %w", err)
	}
	return []any{in.Definition, string(in.Status), in.State, string(in.Data), string(progress), in.Error, in.Status.Ended()}, nil
}

// entryArgs are what is written of an entry, except what the store sets.
func entryArgs(e *saga.Entry) []any {
	return []any{e.MessageID, e.MessageType, e.From, e.To, string(e.Status), e.Definition, e.Node, e.Note}
}

// sagaDest returns the destinations for saga_columns, and a function that then sets the times.
func sagaDest(in *saga.Instance) (dest []any, done func()) {
	var started, changed, ended sqldb.Time
	dest = []any{
		&in.Number, &in.Version, &in.Definition, &in.Status, &in.State, &in.Error, &started, &changed, &ended,
	}
	return dest, func() { in.StartedAt, in.ChangedAt, in.EndedAt = started.UTC(), changed.UTC(), ended.UTC() }
}

func scanListedSaga(r sqldb.Rows) (in saga.Instance, err error) {
	dest, done := sagaDest(&in)
	err = r.Scan(append(dest, &in.Tenant, &in.Saga, &in.Key)...)
	done()
	return in, err
}

func scanSaga(r sqldb.Rows) (in saga.Instance, err error) {
	var data, progress []byte
	dest, done := sagaDest(&in)
	if err := r.Scan(append(dest, &data, &progress)...); err != nil {
		return in, err
	}
	done()
	if len(data) > 0 {
		in.Data = data
	}
	if err := json.Unmarshal(progress, &in.Progress); err != nil {
		return in, fmt.Errorf("progress of a saga: %w", err)
	}
	return in, nil
}

// written is what the store has set.
type written struct {
	number, version int64
	at              sqldb.Time
}

func scanWritten(r sqldb.Rows) (w written, err error) {
	return w, r.Scan(&w.number, &w.version, &w.at)
}

// to sets it in the instance that was written.
func (w *written) to(in *saga.Instance) {
	in.Number, in.Version, in.ChangedAt = w.number, w.version, w.at.UTC()
	if w.version == 1 {
		in.StartedAt = in.ChangedAt
	}
	in.EndedAt = time.Time{}
	if in.Status.Ended() {
		in.EndedAt = in.ChangedAt
	}
}

// ReadSaga implements [saga.Store].
func (c *Core[Tx]) ReadSaga(ctx context.Context, tx Tx, id saga.ID, lock bool) (saga.Instance, error) {
	stmt := c.SQL.Sagas.Read
	if lock {
		stmt = c.SQL.Sagas.Lock
	}
	return c.readSaga(ctx, c.DB.On(tx), stmt, id)
}

// Saga implements [saga.Inspector].
func (c *Core[Tx]) Saga(ctx context.Context, id saga.ID) (saga.Instance, error) {
	return c.readSaga(ctx, c.DB, c.SQL.Sagas.Read, id)
}

func (c *Core[Tx]) readSaga(ctx context.Context, conn sqldb.Conn, stmt string, id saga.ID) (saga.Instance, error) {
	rows, err := conn.Query(ctx, stmt, idArgs(id)...)
	in, found, err := sqldb.One(rows, err, scanSaga)
	if err == nil && !found {
		err = waybill.ErrNotFound
	}
	in.ID = id
	return in, c.Kind(err)
}

// WriteSaga implements [saga.Store].
func (c *Core[Tx]) WriteSaga(ctx context.Context, tx Tx, in *saga.Instance, e saga.Entry) (bool, error) {
	conn := c.DB.On(tx)
	args, err := sagaArgs(in)
	if err != nil {
		return false, err
	}
	stmt := c.SQL.Sagas.Update
	if in.Version == 0 {
		stmt, args = c.SQL.Sagas.Add, append(args, idArgs(in.ID)...)
	} else {
		args = append(args, in.Number, in.Version)
	}
	if c.SQL.Sagas.AddEntry == "" {
		args = append(args, entryArgs(&e)...)
	}
	is, found, err := c.runWrite(ctx, conn, stmt, args, in.ID)
	if err == nil && found && c.SQL.Sagas.AddEntry != "" {
		_, err = conn.Exec(ctx, c.SQL.Sagas.AddEntry, append([]any{is.number, is.version, sqldb.Timestamp(is.at.UTC())}, entryArgs(&e)...)...)
	}
	if err != nil || !found {
		return false, c.Kind(err)
	}
	is.to(in)
	return true, nil
}

// runWrite runs Add or Update and returns what the store has set, if it has written.
func (c *Core[Tx]) runWrite(ctx context.Context, conn sqldb.Conn, stmt string, args []any, id saga.ID) (written, bool, error) {
	if c.SQL.Sagas.Written != "" {
		n, err := conn.Exec(ctx, stmt, args...)
		if err != nil || n == 0 {
			return written{}, false, err
		}
		stmt, args = c.SQL.Sagas.Written, idArgs(id)
	}
	rows, err := conn.Query(ctx, stmt, args...)
	return sqldb.One(rows, err, scanWritten)
}

// ChangeSaga implements [saga.OperatorStore].
func (c *Core[Tx]) ChangeSaga(ctx context.Context, in saga.Instance, e saga.Entry, m *waybill.Message, a deadletter.Entry) (bool, error) {
	return c.audited(ctx, a, func(tx Tx) (bool, error) {
		now, err := c.Now(ctx, tx)
		if err != nil {
			return false, err
		}
		if written, err := c.WriteSaga(ctx, tx, &in, e); err != nil || !written {
			return false, err
		}
		due := m.Clone()
		due.DeliverAt = now
		added, err := c.AddScheduled(ctx, tx, &due)
		if err == nil && !added {
			err = waybill.ConflictError(schedule.ErrExists)
		}
		return added, err
	})
}
