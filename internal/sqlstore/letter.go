package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// DeadLetters implements [deadletter.Store]. ListLetters is followed by the conditions of the
// filter, the order and the limit.
func (c *Core[Tx]) DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	w := c.lettersOf(f)
	var letters []deadletter.Letter
	err := c.plannedAfresh(ctx, func(conn sqldb.Conn) error {
		rows, err := conn.Query(ctx, c.SQL.ListLetters+" "+c.Render(w.sql()), w.args...)
		letters, err = sqldb.Collect(rows, err, scanLetter)
		for i := range letters {
			letters[i].Message.Payload = nil
		}
		return err
	})
	return letters, c.Kind(err)
}

// plannedAfresh runs fn with statements whose plan depends on their arguments: a plan that is good
// for a frequent value takes seconds for a rare one, and the other way round.
func (c *Core[Tx]) plannedAfresh(ctx context.Context, fn func(conn sqldb.Conn) error) error {
	if c.SQL.PlanAfresh == "" {
		return fn(c.DB)
	}
	return c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		if _, err := conn.Exec(ctx, c.SQL.PlanAfresh); err != nil {
			return err
		}
		return fn(conn)
	})
}

// DeadLetter implements [deadletter.Store].
func (c *Core[Tx]) DeadLetter(ctx context.Context, number int64) (deadletter.Letter, error) {
	l, err := c.showLetter(ctx, c.DB, number)
	return l, c.Kind(err)
}

// showLetter runs ShowLetter, which is ListLetters for one number, with the history.
func (c *Core[Tx]) showLetter(ctx context.Context, conn sqldb.Conn, number int64) (deadletter.Letter, error) {
	rows, err := conn.Query(ctx, c.SQL.ShowLetter, number)
	l, found, err := sqldb.One(rows, err, scanLetter)
	if err == nil && !found {
		err = notFound(number)
	}
	return l, err
}

func notFound(number int64) error {
	return fmt.Errorf("dead letter %d: %w", number, waybill.ErrNotFound)
}

func scanLetter(r sqldb.Rows) (l deadletter.Letter, err error) {
	var row sqldb.MessageRow
	var first, last, resolved sqldb.Time
	var history sql.NullString
	err = r.Scan(append([]any{
		&l.Number, &l.Origin, &l.Consumer, &l.Destination, &l.Reason, &l.Error, &l.Fingerprint, &l.State,
		&l.Attempts, &l.Requeues, &l.Failed, &l.Requeued, &l.Replay,
		&first, &last, &resolved, &l.Resolution, &l.Parks, &l.Behind, &history}, row.Dest()...)...)
	if err != nil {
		return l, err
	}
	l.FirstFailed, l.LastFailed, l.ResolvedAt = first.UTC(), last.UTC(), resolved.Pointer()
	l.Message, _ = row.Message() // it may be a dead letter because its row is malformed
	if l.Fingerprint == "" {     // written by a release without fingerprints
		l.Fingerprint = fingerprint(l.Origin, l.Consumer, &l.Message, l.Error)
	}
	l.History, err = attemptsOf(history)
	return l, err
}

func fingerprint(origin deadletter.Origin, consumer string, m *waybill.Message, errText string) string {
	name := consumer
	if origin == deadletter.FromRelay {
		name = m.Address()
	}
	return deadletter.Fingerprint(origin, name, m.Type, errText)
}

// storedAttempt is an element of a history as the stores keep it, as a JSON array.
type storedAttempt struct {
	At    int64         `json:"at"` // microseconds since 1970
	Node  string        `json:"node"`
	Took  time.Duration `json:"took"`
	Error string        `json:"error"`
}

func attemptsOf(history sql.NullString) ([]deadletter.Attempt, error) {
	if !history.Valid {
		return nil, nil
	}
	var stored []storedAttempt
	if err := json.Unmarshal([]byte(history.String), &stored); err != nil {
		return nil, fmt.Errorf("history of a dead letter: %w", err)
	}
	list := make([]deadletter.Attempt, len(stored))
	for i, a := range stored {
		list[i] = deadletter.Attempt{At: time.UnixMicro(a.At).UTC(), Node: a.Node, Took: a.Took, Error: a.Error}
	}
	return list, nil
}
