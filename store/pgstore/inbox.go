package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// gateSQL decides who handles a message: the primary key lets one transaction insert, and a
// concurrent one waits here for its end.
const gateSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb)
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING`

const inboxKey = `tenant = $1 AND consumer = $2 AND source = $3 AND alias = $4 AND message_key = $5`

// gateOutcomeSQL is a statement of its own: within gateSQL a concurrent duplicate would not
// see the row that it has waited for.
const gateOutcomeSQL = `SELECT dead, coalesce(payload_hash, '') FROM {inbox} WHERE ` + inboxKey

const (
	clearAttemptsSQL = `DELETE FROM {consumer_attempts} WHERE ` + inboxKey

	readAttemptsSQL = `
SELECT attempts, greatest(0, extract(epoch FROM due_at - {clock}()) * 1000)::float8
  FROM {consumer_attempts} WHERE ` + inboxKey

	saveAttemptsSQL = `
INSERT INTO {consumer_attempts} AS a (tenant, consumer, source, alias, message_key, attempts, due_at, error, first_failed_at, updated_at)
VALUES ($1, $2, $3, $4, $5, $6, {clock}() + $7 * interval '1 millisecond', $8, {clock}(), {clock}())
ON CONFLICT (tenant, consumer, source, alias, message_key) DO UPDATE
   SET attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error, updated_at = excluded.updated_at`
)

const (
	gateDeadSQL = `
INSERT INTO {inbox} (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, extra_data, dead)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::jsonb, true)
ON CONFLICT (tenant, consumer, source, alias, message_key) DO NOTHING`

	addLetterSQL = `
INSERT INTO {dead_letters} (origin, consumer, alias, message_key, reason, error, attempts, failed, first_failed_at, last_failed_at,
    id, topic, direct, key, type, source, tenant, subject, payload_bytes, content_type, data_schema, headers,
    correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, expires_at, enqueued_at)
VALUES ('consumer', $1, $2, $3, $4, $5, $6, $7,
    coalesce((SELECT first_failed_at FROM {consumer_attempts}
               WHERE tenant = $14 AND consumer = $1 AND source = $13 AND alias = $2 AND message_key = $3), {clock}()), {clock}(),
    $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19::text::jsonb, $20, $21, $22, $23, $24, $25::timestamptz, $26, {clock}())`
)

// The statements of a requeued letter's second chance. Its row lock, held by the handler's
// transaction, keeps other replicas away.
const (
	takeRequeuedSQL = `
SELECT number, alias, message_key, {message}
  FROM {dead_letters}
 WHERE consumer = $1 AND requeued_at <= {clock}()
 ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED`

	removeLetterSQL = `DELETE FROM {dead_letters} WHERE number = $1`

	reviveSQL = `UPDATE {inbox} SET dead = false, processed_at = {clock}() WHERE ` + inboxKey

	// failRequeuedSQL makes the letter a dead one again ($4), or lets it wait ($5 ms).
	failRequeuedSQL = `
UPDATE {dead_letters}
   SET error = $2, reason = $3, last_failed_at = {clock}(), attempts = attempts + CASE WHEN $4 THEN 1 ELSE 0 END,
       requeued_at = CASE WHEN $4 THEN NULL ELSE {clock}() + $5 * interval '1 millisecond' END
 WHERE number = $1`
)

const requeueWait = 5 * time.Second // before a requeued letter that met an outage is tried again

func keyArgs(k inbox.Key) []any {
	return []any{k.Tenant, k.Consumer, k.Source, k.Alias, k.Message}
}

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

// ProcessOnce implements [inbox.Inbox].
func (s *Store[Tx]) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx Tx) error) (outcome inbox.Outcome, err error) {
	err = sqldb.InTx(ctx, s.db, func(tx Tx) error {
		conn := s.db.On(tx)
		n, err := conn.Exec(ctx, s.sql.gate, recordArgs(rec)...)
		if err != nil {
			return fmt.Errorf("insert inbox record: %w", err)
		}
		if n == 0 {
			outcome, err = s.seenBefore(ctx, conn, rec)
			return err
		}
		outcome = inbox.Processed
		if rec.Retried {
			if _, err := conn.Exec(ctx, s.sql.clearAttempts, keyArgs(rec.Key)...); err != nil {
				return fmt.Errorf("clear attempts: %w", err)
			}
		}
		return fromCaller(fn(ctx, tx))
	})
	if err == nil && outcome == inbox.Processed {
		s.WakeRelay() // the handler may have enqueued
	}
	return outcome, classify(err)
}

func (s *Store[Tx]) seenBefore(ctx context.Context, conn sqldb.Conn, rec inbox.Record) (inbox.Outcome, error) {
	type seen struct {
		dead bool
		hash string
	}
	rows, err := conn.Query(ctx, s.sql.gateOutcome, keyArgs(rec.Key)...)
	r, found, err := sqldb.One(rows, err, func(r sqldb.Rows) (v seen, err error) {
		err = r.Scan(&v.dead, &v.hash)
		return v, err
	})
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

// FailedAttempts implements [inbox.Inbox].
func (s *Store[Tx]) FailedAttempts(ctx context.Context, key inbox.Key) (inbox.Attempts, error) {
	rows, err := s.db.Query(ctx, s.sql.readAttempts, keyArgs(key)...)
	a, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (a inbox.Attempts, err error) {
		var wait float64
		err = r.Scan(&a.Count, &wait)
		a.Wait = time.Duration(wait * float64(time.Millisecond))
		return a, err
	})
	return a, classify(err)
}

// SaveAttempt implements [inbox.Inbox].
func (s *Store[Tx]) SaveAttempt(ctx context.Context, key inbox.Key, count int, wait time.Duration, errText string) error {
	_, err := s.db.Exec(ctx, s.sql.saveAttempts, append(keyArgs(key), count, millis(wait), errText)...)
	return classify(err)
}

// BuryMessage implements [inbox.Inbox].
func (s *Store[Tx]) BuryMessage(ctx context.Context, l inbox.Letter) (buried bool, err error) {
	err = sqldb.InTx(ctx, s.db, func(tx Tx) error {
		conn := s.db.On(tx)
		if l.Record.Message != "" {
			n, err := conn.Exec(ctx, s.sql.gateDead, recordArgs(l.Record)...)
			if err != nil || n == 0 {
				return err
			}
		}
		if _, err := conn.Exec(ctx, s.sql.addLetter, letterArgs(l)...); err != nil {
			return err
		}
		buried = true
		_, err := conn.Exec(ctx, s.sql.clearAttempts, keyArgs(l.Record.Key)...)
		return err
	})
	if err != nil {
		return false, classify(fmt.Errorf("store dead letter: %w", err))
	}
	return buried, nil
}

func letterArgs(l inbox.Letter) []any {
	m := l.Message
	payload := m.Payload
	if payload == nil {
		payload = []byte{}
	}
	return []any{
		l.Record.Consumer, l.Record.Alias, l.Record.Message, string(l.Reason), l.Error, l.Attempts, l.Failed,
		m.ID, m.Address(), m.To != "", m.Key, m.Type, m.Source, l.Record.Tenant, m.Subject, payload,
		m.ContentType, m.DataSchema, sqldb.Headers(&m), m.CorrelationID, m.CausationID, m.IdempotencyKey,
		m.TraceParent, m.TraceState, sqldb.Timestamp(m.Time), sqldb.Timestamp(m.ExpiresAt),
	}
}

// requeuedLetter is a letter that its consumer is to run again.
type requeuedLetter struct {
	number  int64
	key     inbox.Key
	message waybill.Message
}

// RunRequeued implements [inbox.Inbox].
func (s *Store[Tx]) RunRequeued(ctx context.Context, consumer string, fn func(ctx context.Context, tx Tx, m *waybill.Message) error) (bool, error) {
	var letter requeuedLetter
	var found bool
	err := sqldb.InTx(ctx, s.db, func(tx Tx) (err error) {
		conn := s.db.On(tx)
		if letter, found, err = s.takeRequeued(ctx, conn, consumer); err != nil || !found {
			return err
		}
		if _, err := conn.Exec(ctx, s.sql.removeLetter, letter.number); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, s.sql.revive, keyArgs(letter.key)...); err != nil {
			return err
		}
		return fromCaller(fn(ctx, tx, &letter.message))
	})
	if err == nil {
		s.WakeRelay()
		return found, nil
	}
	err = classify(err)
	if !found {
		return false, err
	}
	return true, errors.Join(err, s.failRequeued(ctx, letter.number, err))
}

func (s *Store[Tx]) takeRequeued(ctx context.Context, conn sqldb.Conn, consumer string) (requeuedLetter, bool, error) {
	rows, err := conn.Query(ctx, s.sql.takeRequeued, consumer)
	return sqldb.One(rows, err, func(r sqldb.Rows) (l requeuedLetter, err error) {
		var row sqldb.MessageRow
		if err := r.Scan(append([]any{&l.number, &l.key.Alias, &l.key.Message}, row.Dest()...)...); err != nil {
			return l, err
		}
		l.message, _ = row.Message() // it was good enough for a letter; the handler judges it
		l.key.Tenant, l.key.Consumer, l.key.Source = l.message.Tenant, consumer, l.message.Source
		return l, nil
	})
}

func (s *Store[Tx]) failRequeued(ctx context.Context, number int64, cause error) error {
	kind := waybill.KindOf(cause)
	deadAgain := kind == waybill.Transient || kind == waybill.Permanent
	reason := waybill.ReasonExhausted
	if kind == waybill.Permanent {
		reason = waybill.ReasonOf(cause)
	}
	_, err := s.db.Exec(ctx, s.sql.failRequeued, number, waybill.ErrorText(cause), string(reason), deadAgain, millis(requeueWait))
	return classify(err)
}
