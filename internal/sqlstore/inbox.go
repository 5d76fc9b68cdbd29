package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// keyArgs are $1 to $5 of every statement about an inbox key.
func keyArgs(k inbox.Key) []any {
	return []any{k.Tenant, k.Consumer, k.Source, k.Alias, k.Message}
}

// recordArgs are the arguments of Gate and GateDead.
func recordArgs(r inbox.Record) []any {
	return append(keyArgs(r.Key), r.MessageID, r.Type, r.PayloadHash, jsonColumn(r.Extra))
}

func jsonColumn(raw json.RawMessage) *string {
	if raw == nil {
		return nil
	}
	s := string(raw)
	return &s
}

// ProcessOnce implements [inbox.Inbox]. Gate inserts the record, or changes no row if there
// is one; GateOutcome then returns whether that one is dead, and its payload hash.
func (c *Core[Tx]) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx Tx) error) (outcome inbox.Outcome, err error) {
	err = c.InTx(ctx, func(tx Tx, conn sqldb.Conn) error {
		n, err := conn.Exec(ctx, c.SQL.Gate, recordArgs(rec)...)
		if err != nil {
			return fmt.Errorf("insert inbox record: %w", err)
		}
		if n == 0 {
			outcome, err = c.seenBefore(ctx, conn, rec)
			return err
		}
		outcome = inbox.Processed
		if rec.Retried {
			if _, err := conn.Exec(ctx, c.SQL.ClearAttempts, keyArgs(rec.Key)...); err != nil {
				return fmt.Errorf("clear attempts: %w", err)
			}
		}
		return FromCaller(fn(ctx, tx))
	})
	if err == nil && outcome == inbox.Processed {
		c.WakeRelay() // the handler may have enqueued
	}
	return outcome, err
}

// seen is a record that is there already.
type seen struct {
	dead bool
	hash string
}

func scanSeen(r sqldb.Rows) (v seen, err error) {
	err = r.Scan(&v.dead, &v.hash)
	return v, err
}

func (c *Core[Tx]) seenBefore(ctx context.Context, conn sqldb.Conn, rec inbox.Record) (inbox.Outcome, error) {
	rows, err := conn.Query(ctx, c.SQL.GateOutcome, keyArgs(rec.Key)...)
	r, found, err := sqldb.One(rows, err, scanSeen)
	switch {
	case err != nil:
		return 0, fmt.Errorf("read inbox record: %w", err)
	case !found: // removed between the two statements
		return 0, waybill.ConflictError(errors.New("inbox record vanished"))
	case r.dead:
		return inbox.Dead, nil
	case r.hash != "" && r.hash != rec.PayloadHash:
		return inbox.Conflict, nil
	}
	return inbox.Duplicate, nil
}

// FailedAttempts implements [inbox.Inbox]. ReadAttempts returns their number and the wait
// that is left, in milliseconds.
func (c *Core[Tx]) FailedAttempts(ctx context.Context, key inbox.Key) (inbox.Attempts, error) {
	rows, err := c.DB.Query(ctx, c.SQL.ReadAttempts, keyArgs(key)...)
	a, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (a inbox.Attempts, err error) {
		var wait float64
		err = r.Scan(&a.Count, &wait)
		a.Wait = fromMillis(wait)
		return a, err
	})
	return a, c.Kind(err)
}

// SaveAttempt implements [inbox.Inbox]. Behind the key the statement takes the number, the
// wait in milliseconds, the error, the node and the nanoseconds that the attempt took. It adds
// to the history if the number has risen.
func (c *Core[Tx]) SaveAttempt(ctx context.Context, key inbox.Key, a inbox.FailedAttempt) error {
	_, err := c.DB.Exec(ctx, c.SQL.SaveAttempt, append(keyArgs(key), a.Count, Millis(a.Wait), a.Error, a.Node, int64(a.Took))...)
	return c.Kind(err)
}

// BuryMessage implements [inbox.Inbox]. GateDead is to Gate what a dead record is to a
// processed one.
func (c *Core[Tx]) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if l.Record.Message != "" {
			n, err := conn.Exec(ctx, c.SQL.GateDead, recordArgs(l.Record)...)
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
	return buried && err == nil, err
}

// letterArgs are the arguments of AddLetter: the letter's own, then the message's.
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

func messageArgs(m *waybill.Message) []any {
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	return []any{
		m.ID, m.Address(), m.To != "", m.Key, m.Type, m.Source, m.Tenant, m.Subject, payload,
		m.ContentType, m.DataSchema, sqldb.Headers(m), m.CorrelationID, m.CausationID, m.IdempotencyKey,
		m.TraceParent, m.TraceState, sqldb.Timestamp(m.Time), sqldb.Timestamp(m.ExpiresAt),
	}
}
