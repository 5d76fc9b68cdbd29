package main

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

// runStores compares writer, relay and inbox on MariaDB and on SQLite with hand-written ones.
func runStores(ctx context.Context, b *bench) (rows []row, _ error) {
	for _, open := range []func(context.Context, *bench) (*database, error){openMariaDB, openSQLite} {
		more, err := b.compareOn(ctx, open)
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

// compareOn does so with a database that it creates and removes.
func (b *bench) compareOn(ctx context.Context, open func(context.Context, *bench) (*database, error)) (rows []row, _ error) {
	d, err := open(ctx, b)
	if err != nil {
		return nil, err
	}
	defer d.close()
	for _, part := range []func(context.Context) ([]row, error){d.compareWriters, d.compareDrains, d.compareInboxes} {
		more, err := part(ctx)
		rows = append(rows, more...)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return rows, nil
}

// compared returns the rows of contenders that took turns. Each name in of is a column: the first
// compares the contenders with the first of them, the second with the second.
func compared(table, rate string, list []measured, rates [][]float64, of ...string) []row {
	rows := make([]row, len(list))
	for i, c := range list {
		figures := []figure{{name: rate, values: rates[i]}}
		for j, name := range of[:min(i, len(of))] {
			figures = append(figures, figure{name, "%", ratios(rates[i], rates[j]), nil})
		}
		rows[i] = row{table: table, name: c.name, note: c.note, figures: figures}
	}
	return rows
}

// flooding is a contender that is called continuously, on each connection that may write.
func (d *database) flooding(name, note string, do func(context.Context) error) measured {
	return measured{name, note, func(ctx context.Context) (float64, error) { return flood(ctx, d.writers, d.slice(), do) }}
}

// heading returns that of a table whose contenders write.
func (d *database) heading(what string) string {
	if d.writers == 1 {
		return fmt.Sprintf("%s, %s, 1 connection", d.name, what)
	}
	return fmt.Sprintf("%s, %s, %d connections", d.name, what, d.writers)
}

func (d *database) compareWriters(ctx context.Context) ([]row, error) {
	list := []measured{
		d.flooding("no outbox", "BEGIN, one business INSERT, COMMIT", d.plain),
		d.flooding("by hand", "the same with an INSERT of the message into a lean table of 9 columns", d.writeByHand),
		d.flooding("Writer.InTx", "", d.inTx),
		d.flooding("Writer.Enqueue", "", d.enqueue),
	}
	rates, err := d.turns(ctx, list, d.emptyAll)
	if err != nil {
		return nil, err
	}
	return compared(d.heading("business transactions"), "transactions/s", list, rates, "of no outbox", "of by hand"), nil
}

func (d *database) business(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO business (customer, amount) VALUES (?, ?)", "a customer", 4711)
	return err
}

// plain is the business transaction without a message.
func (d *database) plain(ctx context.Context) error {
	return d.inTransaction(ctx, func(tx *sql.Tx) error { return d.business(ctx, tx) })
}

const leanSQL = `INSERT INTO lean (message_id, topic, message_key, type, source, tenant, payload, time) VALUES `

// leanRow holds the placeholders for the values of leanArgs.
const leanRow = `(?, ?, ?, ?, ?, ?, ?, ?)`

func (d *database) leanArgs(key string) []any {
	return []any{uuid.Must(uuid.NewV7()).String(), topic, key, topic, "bench", waybill.DefaultTenant, d.payload, time.Now().UnixMicro()}
}

// writeByHand stores a message in the lean table.
func (d *database) writeByHand(ctx context.Context) error {
	return d.inTransaction(ctx, func(tx *sql.Tx) error {
		if err := d.business(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, leanSQL+leanRow, d.leanArgs(d.key())...)
		return err
	})
}

// enqueue stores a message in the caller's own transaction.
func (d *database) enqueue(ctx context.Context) error {
	return d.inTransaction(ctx, func(tx *sql.Tx) error {
		if err := d.business(ctx, tx); err != nil {
			return err
		}
		_, err := d.writer.Enqueue(ctx, tx, d.message())
		return err
	})
}

// inTx stores a message through the transaction helper.
func (d *database) inTx(ctx context.Context) error {
	_, err := d.writer.InTx(ctx, func(ctx context.Context, tx *sql.Tx, rec *outbox.Recorder) error {
		rec.Record(d.message())
		return d.business(ctx, tx)
	})
	return err
}

func (d *database) compareInboxes(ctx context.Context) ([]row, error) {
	list := []measured{
		d.flooding("no inbox", "BEGIN, one business INSERT, COMMIT: what comes twice has its effect twice", d.plain),
		d.flooding("by hand", "the same with an INSERT of the key before, into the table of waybill", d.handleByHand),
		d.flooding("inbox.Process", "", d.handle),
	}
	rates, err := d.turns(ctx, list, d.emptyAll)
	if err != nil {
		return nil, err
	}
	return compared(d.heading("one message per transaction"), "messages/s", list, rates, "of no inbox", "of by hand"), nil
}

const sqlGateSQL = ` INTO waybill_inbox (tenant, consumer, source, alias, message_key, message_id, type, payload_hash, processed_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) `

// handleByHand handles a message unless its key is in the table.
func (d *database) handleByHand(ctx context.Context) error {
	return d.handleOnceByHand(ctx, d.arrival())
}

func (d *database) handleOnceByHand(ctx context.Context, m waybill.Message) error {
	sum := sha256.Sum256(m.Payload)
	return d.inTransaction(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, d.ignore+sqlGateSQL+d.orNone,
			m.Tenant, "billing", m.Source, m.Type, m.ID, m.ID, m.Type, hex.EncodeToString(sum[:]), time.Now().UnixMicro())
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return d.business(ctx, tx)
	})
}

func (d *database) handle(ctx context.Context) error {
	m := d.arrival()
	_, err := inbox.Process(ctx, d.store, "billing", &m, d.business)
	return err
}

func (d *database) compareDrains(ctx context.Context) ([]row, error) {
	archiving := func(ctx context.Context, n int, pub contract.Publisher) (time.Duration, error) {
		return d.relayAll(ctx, n, pub, relay.Config{})
	}
	forgetting := func(ctx context.Context, n int, pub contract.Publisher) (time.Duration, error) {
		return d.relayAll(ctx, n, pub, relay.Config{Retention: relay.KeepNothing})
	}
	list := []measured{
		d.draining("by hand", "one reader, batches of 500 by position from the lean table, one DELETE for each; no retries, no leases", d.fillLean, d.drainLean),
		d.draining("by hand, table of waybill", "the same from the outbox that the relay empties", d.fillOutbox, d.drainOutbox),
		d.draining("relay", "shipped defaults: what was published is kept for 7 days", d.fillOutbox, archiving),
		d.draining("relay, KeepNothing", "Retention: KeepNothing", d.fillOutbox, forgetting),
	}
	rates, err := measure(ctx, d.repeats, list, d.emptyAll)
	if err != nil {
		return nil, err
	}
	return compared(d.name+", drained to a publisher that does nothing", "messages/s", list, rates, "of by hand"), nil
}

// drainer drains a backlog of n messages, and returns how long that took.
type drainer func(ctx context.Context, n int, pub contract.Publisher) (time.Duration, error)

// draining is a contender that drains a backlog, which is created before.
func (d *database) draining(name, note string, fill func(ctx context.Context, n int) error, drain drainer) measured {
	return measured{name, note, func(ctx context.Context) (float64, error) {
		n := max(1, d.messages/4)
		if err := fill(ctx, n); err != nil {
			return 0, err
		}
		pub := &nothing{}
		took, err := drain(ctx, n, pub)
		if err != nil {
			return 0, err
		}
		if taken := pub.taken.Load(); taken != int64(n) {
			return 0, fmt.Errorf("%d messages were published, want %d", taken, n)
		}
		return float64(n) / took.Seconds(), nil
	}}
}

// sqlBatch is how many messages a hand-written statement stores, reads or deletes.
const sqlBatch = 500

// fillOutbox enqueues n messages whose keys follow a Zipf distribution.
func (d *database) fillOutbox(ctx context.Context, n int) error {
	for keys := range slices.Chunk(zipfKeys(n, d.keys), sqlBatch) {
		msgs := make([]waybill.Message, len(keys))
		for i, k := range keys {
			msgs[i] = waybill.Message{Topic: topic, Key: zipfKey(k), Payload: d.payload}
		}
		err := d.inTransaction(ctx, func(tx *sql.Tx) error {
			_, err := d.writer.Enqueue(ctx, tx, msgs...)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fillLean stores the same in the lean table.
func (d *database) fillLean(ctx context.Context, n int) error {
	for keys := range slices.Chunk(zipfKeys(n, d.keys), sqlBatch) {
		var args []any
		for _, k := range keys {
			args = append(args, d.leanArgs(zipfKey(k))...)
		}
		rows := strings.Repeat(leanRow+", ", len(keys)-1) + leanRow
		if err := d.exec(ctx, leanSQL+rows, args...); err != nil {
			return err
		}
	}
	return nil
}

func zipfKey(k int32) string { return "k" + strconv.Itoa(int(k)) }

// The statements of the hand-written loops. The last ones contain positions as numbers.
const (
	readLeanSQL   = "SELECT id, message_id, topic, message_key, type, source, tenant, payload, time FROM lean WHERE id > ? ORDER BY id LIMIT 500"
	deleteLeanSQL = "DELETE FROM lean WHERE id IN (%s)"

	readOutboxSQL = "SELECT position, id, topic, `key`, type, source, tenant, payload_bytes, enqueued_at " +
		"FROM waybill_outbox WHERE position > ? ORDER BY position LIMIT 500"
	deleteOutboxSQL = "DELETE FROM waybill_outbox WHERE position IN (%s)"
)

func (d *database) drainLean(ctx context.Context, _ int, pub contract.Publisher) (time.Duration, error) {
	return d.drainByHand(ctx, pub, readLeanSQL, deleteLeanSQL)
}

func (d *database) drainOutbox(ctx context.Context, _ int, pub contract.Publisher) (time.Duration, error) {
	return d.drainByHand(ctx, pub, readOutboxSQL, deleteOutboxSQL)
}

// drainByHand is the minimum for a hand-written relay: one reader, rows by position in batches of 500,
// handed over, and deleted in one statement. It knows no retries and no leases.
func (d *database) drainByHand(ctx context.Context, pub contract.Publisher, read, remove string) (time.Duration, error) {
	began := time.Now()
	after := int64(0)
	for {
		positions, out, err := d.readByHand(ctx, read, after)
		if err != nil || len(out) == 0 {
			return time.Since(began), err
		}
		after = positions[len(positions)-1]
		if err := errors.Join(pub.Send(ctx, out)()...); err != nil {
			return 0, err
		}
		if err := d.exec(ctx, fmt.Sprintf(remove, commas(positions))); err != nil {
			return 0, err
		}
	}
}

func commas(numbers []int64) string {
	var list []byte
	for i, n := range numbers {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendInt(list, n, 10)
	}
	return string(list)
}

func (d *database) readByHand(ctx context.Context, read string, after int64) ([]int64, []contract.Outgoing, error) {
	rows, err := d.db.QueryContext(ctx, read, after)
	if err != nil {
		return nil, nil, err
	}
	defer rows.Close()
	var positions []int64
	var out []contract.Outgoing
	for rows.Next() {
		var position, at int64
		m := &waybill.Message{}
		if err := rows.Scan(&position, &m.ID, &m.Topic, &m.Key, &m.Type, &m.Source, &m.Tenant, &m.Payload, &at); err != nil {
			return nil, nil, err
		}
		m.Time = time.UnixMicro(at).UTC()
		positions = append(positions, position)
		out = append(out, contract.Outgoing{Message: m, DedupID: m.ID})
	}
	return positions, out, rows.Err()
}

// relayAll runs a relay until it has settled n messages.
func (d *database) relayAll(ctx context.Context, n int, pub contract.Publisher, cfg relay.Config) (time.Duration, error) {
	settled := make(chan int, n)
	cfg.Observer = progress{quiet, observe.OpSettle, func(n int) { settled <- n }}
	r, err := relay.New(d.store, pub, cfg)
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	began := time.Now()
	go func() { ended <- r.Run(ctx) }()
	for left := n; left > 0; {
		select {
		case some := <-settled:
			left -= some
		case err := <-ended:
			return 0, errors.Join(err, errors.New("the relay has ended early"))
		case <-time.After(patience):
			stop()
			<-ended
			return 0, fmt.Errorf("nothing more was settled for %v, with %d messages left", patience, left)
		}
	}
	took := time.Since(began)
	stop()
	return took, <-ended
}
