package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/history"
)

// keyedWriters commit messages through several connections at once. Each transaction locks
// a row for each of its keys before it enqueues, as an application does that wants order.
type keyedWriters struct {
	*world
	keys  int
	turns chan struct{} // each lets one transaction run; closed at the end
	done  sync.WaitGroup

	mu        sync.Mutex
	committed []history.Message
	numbers   int // transactions begun
	err       error
}

const (
	writers        = 4
	keysTogether   = 4 // keys of a transaction
	messagesPerKey = 5 // messages that a transaction has for each
	perTransaction = keysTogether * messagesPerKey
)

// startWriters starts writers that commit one transaction for each value of turns.
func (w *world) startWriters(t *testing.T, keys, transactions int) *keyedWriters {
	t.Helper()
	w.exec(t, "CREATE TABLE "+w.table("counters")+" (key text PRIMARY KEY, n integer NOT NULL DEFAULT 0)")
	w.exec(t, "INSERT INTO "+w.table("counters")+" SELECT 'key-' || i FROM generate_series(0, $1 - 1) i", keys)
	k := &keyedWriters{world: w, keys: keys, turns: make(chan struct{}, transactions)}
	for range writers {
		k.done.Go(func() {
			for range k.turns {
				if err := k.write(context.WithoutCancel(t.Context())); err != nil {
					k.mu.Lock()
					k.err = err
					k.mu.Unlock()
				}
			}
		})
	}
	return k
}

// finish waits for the last transaction and returns what was committed.
func (k *keyedWriters) finish(t *testing.T) []history.Message {
	t.Helper()
	close(k.turns)
	k.done.Wait()
	if k.err != nil {
		t.Fatalf("business transaction: %v", k.err)
	}
	return k.committed
}

var errRolledBack = errors.New("rolled back")

// write commits one transaction, again if it clashes with another. One in ten tries is
// rolled back after its enqueue: its messages must never arrive.
func (k *keyedWriters) write(ctx context.Context) error {
	for tries := 0; ; tries++ {
		var msgs []history.Message
		err := pgx.BeginFunc(ctx, k.pool, func(tx pgx.Tx) (err error) {
			number := k.next()
			if msgs, err = k.enqueueKeyed(ctx, tx, number); err == nil && number%10 == 0 {
				err = errRolledBack
			}
			return err
		})
		if err == nil {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.committed = append(k.committed, msgs...)
			return nil
		}
		if errors.Is(err, errRolledBack) {
			continue
		}
		if tries > 1000 || !isSerialization(err) {
			return err
		}
	}
}

func (k *keyedWriters) next() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.numbers++
	return k.numbers
}

// enqueueKeyed enqueues the next messages of some keys. The ids are of this try alone.
func (k *keyedWriters) enqueueKeyed(ctx context.Context, tx pgx.Tx, number int) ([]history.Message, error) {
	counts, err := k.lockKeys(ctx, tx)
	if err != nil {
		return nil, err
	}
	var committed []history.Message
	var msgs []waybill.Message
	for range messagesPerKey {
		for key := range counts {
			counts[key]++
			m := history.Message{ID: fmt.Sprintf("%s/%d/%d", key, counts[key], number), Key: key, Seq: counts[key]}
			committed = append(committed, m)
			msgs = append(msgs, waybill.Message{ID: m.ID, Topic: "orders", Key: key, Payload: []byte(`{}`)})
		}
	}
	if _, err := k.writer.Enqueue(ctx, tx, msgs...); err != nil {
		return nil, err
	}
	return committed, nil
}

// lockKeys locks the counters of some keys, always in one order, counts the messages to
// come, and returns the counts as they were.
func (k *keyedWriters) lockKeys(ctx context.Context, tx pgx.Tx) (map[string]int, error) {
	var keys []string
	for _, n := range rand.Perm(k.keys)[:keysTogether] {
		keys = append(keys, fmt.Sprintf("key-%d", n))
	}
	slices.Sort(keys)
	rows, err := tx.Query(ctx, "SELECT key, n FROM "+k.table("counters")+" WHERE key = ANY ($1) ORDER BY key FOR UPDATE", keys)
	if err != nil {
		return nil, err
	}
	counts, key, n := make(map[string]int, keysTogether), "", 0
	_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error {
		counts[key] = n
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE "+k.table("counters")+" SET n = n + $2 WHERE key = ANY ($1)", keys, messagesPerKey)
	return counts, err
}
