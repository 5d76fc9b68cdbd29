package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// keyArgs are $1 to $5 of every statement about an inbox key.
func keyArgs(k inbox.Key) []any {
	return []any{k.Tenant, k.Consumer, k.Source, k.Alias, k.Message}
}

// RecordArgs are the arguments of Gate and GateDead.
func RecordArgs(r inbox.Record) []any {
	return []any{r.Tenant, r.Consumer, r.Source, r.Alias, r.Message, r.MessageID, r.Type, r.PayloadHash, jsonColumn(r.Extra)}
}

func jsonColumn(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// ProcessOnce implements [contract.Inbox]. Gate inserts the record, or changes no row if there
// is one; GateOutcome then returns whether that one is dead, and its payload hash. Attempts are
// cleared in both cases: a copy that arrives after the commit may have recorded its start.
func (c *Core[Tx]) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx Tx) error) (inbox.Outcome, error) {
	outcome, found, err := c.lookFirst(ctx, rec)
	if found || err != nil {
		return outcome, c.Kind(err)
	}
	outcome, err = c.enter(ctx, rec, fn)
	if err == nil {
		c.repeating.Store(outcome != inbox.Processed)
	}
	return outcome, err
}

// lookFirst looks for the record without a transaction, if the previous message was recorded
// already: duplicates come in runs, after a broker or a relay has lost its progress. A message
// whose attempts must be cleared, or whose position must be recorded, needs the transaction.
func (c *Core[Tx]) lookFirst(ctx context.Context, rec inbox.Record) (outcome inbox.Outcome, found bool, err error) {
	if !c.repeating.Load() || rec.Retried || rec.At != nil {
		return 0, false, nil
	}
	rows, err := c.DB.Query(ctx, c.SQL.GateOutcome, keyArgs(rec.Key)...)
	v, found, err := sqldb.One(rows, err, scanSeen)
	if err != nil {
		return 0, false, fmt.Errorf("look for inbox record: %w", err)
	}
	return v.outcome(&rec), found, nil
}

// enter is ProcessOnce for a message that may be new.
func (c *Core[Tx]) enter(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx Tx) error) (outcome inbox.Outcome, err error) {
	e, ran := entry[Tx]{core: c, rec: rec}, false
	handle := func(tx Tx) error {
		conn := c.DB.On(tx)
		if err := e.afterFirst(ctx, conn); err != nil {
			return err
		}
		if err := c.clearRetried(ctx, conn, rec); err != nil || !e.fresh {
			return err
		}
		ran = true
		return FromCaller(fn(ctx, tx))
	}
	look := func(conn sqldb.Conn) (err error) {
		outcome, err = e.outcome(ctx, conn)
		return err
	}
	if err := c.beforeGate(ctx, rec); err != nil {
		return 0, err
	}
	first := func(conn sqldb.Conn) error { return e.first(ctx, conn) }
	err = sqldb.InTxBetween(ctx, c.callers(), first, handle, look)
	if errors.Is(err, errNotPassed) {
		return inbox.Conflict, nil
	}
	if err = c.kindAfter(ctx, ran, err); err != nil {
		return 0, err
	}
	if e.fresh {
		c.WakeRelay() // the handler may have enqueued
	}
	return outcome, nil
}

// entry decides whether a message is handled: by the progress of its partition, if it has a
// position, and by the inbox insert, unless it is recorded there once.
type entry[Tx any] struct {
	core  *Core[Tx]
	rec   inbox.Record
	fresh bool          // it is to be handled
	moved bool          // it was not behind the progress of its partition
	found inbox.Outcome // of one with a position that is not fresh
}

// errNotPassed rolls back the progress of the partition past a message that is in conflict with
// another: its outcome is not decided.
var errNotPassed = errors.New("message is in conflict with another")

// first runs the first statement of the transaction.
func (e *entry[Tx]) first(ctx context.Context, conn sqldb.Conn) (err error) {
	if e.rec.At == nil {
		return e.gate(ctx, conn)
	}
	e.moved, err = e.core.moveBehind(ctx, e.core.brief(conn), e.rec.At)
	return err
}

// afterFirst decides what the first statement left open.
func (e *entry[Tx]) afterFirst(ctx context.Context, conn sqldb.Conn) (err error) {
	switch {
	case e.rec.At == nil:
		return nil
	case !e.moved:
		e.found = inbox.Duplicate
		return e.core.passed(ctx, conn, e.rec.At)
	case e.rec.At.Once:
		e.fresh = true
		return nil
	}
	if err := e.gate(ctx, conn); err != nil || e.fresh {
		return err
	}
	if e.found, err = e.core.seenBefore(ctx, conn, e.rec); err == nil && e.found == inbox.Conflict {
		err = errNotPassed
	}
	return err
}

func (e *entry[Tx]) gate(ctx context.Context, conn sqldb.Conn) error {
	n, err := e.core.brief(conn).Exec(ctx, e.core.SQL.Gate, RecordArgs(e.rec)...)
	e.fresh = n > 0
	if err != nil {
		return fmt.Errorf("insert inbox record: %w", err)
	}
	return nil
}

func (e *entry[Tx]) outcome(ctx context.Context, conn sqldb.Conn) (inbox.Outcome, error) {
	switch {
	case e.fresh:
		return inbox.Processed, nil
	case e.rec.At != nil:
		return e.found, nil
	}
	return e.core.seenBefore(ctx, conn, e.rec)
}

func (c *Core[Tx]) beforeGate(ctx context.Context, recs ...inbox.Record) error {
	if c.BeforeGate == nil {
		return nil
	}
	return c.Kind(c.BeforeGate(ctx, c.DB, recs...))
}

func (c *Core[Tx]) clearRetried(ctx context.Context, conn sqldb.Conn, rec inbox.Record) error {
	if !rec.Retried {
		return nil
	}
	if _, err := conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(rec.Key)...); err != nil {
		return fmt.Errorf("clear attempts: %w", err)
	}
	return nil
}

// Seen is a stored record.
type Seen struct {
	IsNew bool // the transaction that asks has inserted it
	Dead  bool
	Hash  string // of the payload, or how it begins; "" if it is not known
}

func scanSeen(r sqldb.Rows) (v Seen, err error) {
	err = r.Scan(&v.Dead, &v.Hash)
	return v, err
}

// outcome is what the record means for rec, which has its key.
func (v Seen) outcome(rec *inbox.Record) inbox.Outcome {
	switch {
	case v.IsNew:
		return inbox.Processed
	case v.Dead:
		return inbox.Dead
	case v.Hash != "" && !strings.HasPrefix(rec.PayloadHash, v.Hash):
		return inbox.Conflict
	}
	return inbox.Duplicate
}

var errVanished = errors.New("inbox record vanished") // removed between two statements

func (c *Core[Tx]) seenBefore(ctx context.Context, conn sqldb.Conn, rec inbox.Record) (inbox.Outcome, error) {
	rows, err := conn.Query(ctx, c.SQL.GateOutcome, keyArgs(rec.Key)...)
	r, found, err := sqldb.One(rows, err, scanSeen)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read inbox record: %w", err)
	case !found:
		return 0, waybill.ConflictError(errVanished)
	}
	return r.outcome(&rec), nil
}

// FailedAttempts implements [contract.Inbox]. ReadAttempts returns their number, the remaining wait,
// in milliseconds, the starts, and the error.
func (c *Core[Tx]) FailedAttempts(ctx context.Context, key inbox.Key) (contract.Attempts, error) {
	rows, err := c.DB.Query(ctx, c.SQL.ReadAttempts, keyArgs(key)...)
	a, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (a contract.Attempts, err error) {
		var wait float64
		err = r.Scan(&a.Count, &wait, &a.Starts, &a.Error)
		a.Wait = fromMillis(wait)
		return a, err
	})
	return a, c.Kind(err)
}

// SaveAttempt implements [contract.Inbox]. After the key the statement takes the number, the wait in
// milliseconds, the error, the node and the nanoseconds that the attempt took. It adds to the
// history if the number has risen.
func (c *Core[Tx]) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	_, err := c.DB.Exec(ctx, c.SQL.SaveAttempt, append(keyArgs(key), a.Count, Millis(a.Wait), a.Error, a.Node, int64(a.Took))...)
	return c.Kind(err)
}

// BuryMessage implements [contract.Inbox]. GateDead is to Gate what a dead record is to a
// processed one.
func (c *Core[Tx]) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	if err := c.beforeGate(ctx, l.Record); err != nil {
		return false, err
	}
	err = sqldb.InTx(ctx, c.DB, func(tx Tx) error {
		conn := c.DB.On(tx)
		if done, err := c.doneWith(ctx, conn, l.Record.At); err != nil || done {
			return err
		}
		if l.Record.Message != "" {
			n, err := c.brief(conn).Exec(ctx, c.SQL.GateDead, RecordArgs(l.Record)...)
			if err != nil || n == 0 {
				return err
			}
		}
		if _, err := conn.Exec(ctx, c.SQL.AddLetter, letterArgs(l)...); err != nil {
			return fmt.Errorf("store dead letter: %w", err)
		}
		buried = true
		_, err := conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(l.Record.Key)...)
		return err
	})
	return buried && err == nil, c.kindBefore(err)
}

// letterArgs are the arguments of AddLetter: those of the dead letter, then those of the message.
func letterArgs(l inbox.Letter) []any {
	m := l.Message
	m.Tenant = l.Record.Tenant
	return append([]any{
		l.Record.Consumer, l.Record.Alias, l.Record.Message, string(l.Reason), l.Error, l.Attempts, l.Failed,
		fingerprint(deadletter.FromConsumer, l.Record.Consumer, &m, l.Error), l.Node, int64(l.Took), l.Record.Tenant, l.Record.Source,
	}, messageArgs(&m)...)
}

// MessageFields are the columns of a message that statements with a message as their last
// arguments take, in this order.
const MessageFields = `id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema, headers, ` +
	`correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, expires_at`

// messageParams are parameters for [MessageFields], from the one with the given number on.
func messageParams(first int) string {
	params := make([]string, strings.Count(MessageFields, ",")+1)
	for i := range params {
		params[i] = fmt.Sprintf("$%d", first+i)
	}
	return strings.Join(params, ", ")
}

// messageArgs are the arguments for [MessageFields].
func messageArgs(m *waybill.Message) []any {
	args := EnqueueArgs(m)
	return slices.Delete(args, len(args)-2, len(args)-1)
}

// EnqueueArgs are those of a message that is enqueued: they include the time at which it is to be
// delivered, before the last one, at which it expires.
func EnqueueArgs(m *waybill.Message) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	return []any{
		m.ID, m.Address(), m.To != "", m.Key, m.Type, m.Source, m.Tenant, m.Subject, payload,
		m.ContentType, m.DataSchema, sqldb.Headers(m), m.CorrelationID, m.CausationID, m.IdempotencyKey,
		m.TraceParent, m.TraceState, sqldb.Timestamp(m.Time), sqldb.Timestamp(m.DeliverAt), sqldb.Timestamp(m.ExpiresAt),
	}
}
