package conformance

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"modernc.org/sqlite"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/storetest"
)

// keyMessages is how many messages of one key wait in the tests below: half of them are due together,
// as of a tenant that had used up its share of a rate, the rest follow.
const keyMessages = 200

// claimReads claims what waits of a key, and returns by how much that has raised a counter.
func claimReads[Tx any](t *testing.T, s storetest.Store[Tx], counter func() int) int {
	t.Helper()
	ctx := t.Context()
	_, err := s.Transact(ctx, func(context.Context, Tx) (b outbox.Batch, _ error) {
		for i := range keyMessages {
			m := waybill.Message{ID: fmt.Sprint(i), Topic: "orders", Key: "k", Source: "shop"}
			m.Complete()
			b.Messages = append(b.Messages, m)
		}
		return b, nil
	})
	must(t, err)
	lease, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Hour})
	must(t, err)
	claims, err := s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: keyMessages})
	must(t, err)
	settle := func(list ...contract.Settlement) {
		t.Helper()
		_, err := s.SettleMessages(ctx, contract.SettleRequest{Node: "r1", Settlements: list})
		must(t, err)
	}
	due, behind := claims[:keyMessages/2], claims[keyMessages/2:]
	for i := range slices.Backward(due) { // so that none is behind another one when it begins to wait
		settle(contract.Settlement{Claim: &due[i], Outcome: contract.Wait})
	}
	var rest []contract.Settlement
	for i := range behind {
		rest = append(rest, contract.Settlement{Claim: &behind[i], Outcome: contract.Wait, Behind: true})
	}
	settle(rest...)

	before := counter()
	claims, err = s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: keyMessages, Due: true, DueOnly: true})
	reads := counter() - before
	must(t, err)
	if len(claims) != keyMessages {
		t.Errorf("claimed %d messages that wait, want %d", len(claims), keyMessages)
	}
	return reads
}

// TestMySQLStore_ClaimReadsAKeyOnce counts the rows that the server hands to the statement.
func TestMySQLStore_ClaimReadsAKeyOnce(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	s.db.SetMaxOpenConns(1) // the session counts
	reads := claimReads(t, s, func() int { return mysqlRowsRead(t, s.db) })
	if limit := 12 * keyMessages; reads > limit {
		t.Errorf("a claim of %d messages of a key read %d rows, want at most %d", keyMessages, reads, limit)
	}
}

// TestSQLiteStore_ClaimReadsAKeyOnce counts the pages that statements ask for: one for each row, and
// some more where a row is looked up.
func TestSQLiteStore_ClaimReadsAKeyOnce(t *testing.T) {
	t.Parallel()
	s := migratedSQLite(t, filepath.Join(t.TempDir(), "test.db"))
	s.db.SetMaxOpenConns(1) // the connection counts
	reads := claimReads(t, s, func() int { return sqlitePages(t, s.db) })
	if limit := 5 * keyMessages; reads > limit {
		t.Errorf("a claim of %d messages of a key read %d pages, want at most %d", keyMessages, reads, limit)
	}
}

// sqlitePages returns how many pages the connection has asked for.
func sqlitePages(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer conn.Close()
	must(t, conn.Raw(func(own any) error {
		hits, _, err := own.(sqlite.DBStatus).Status(sqlite.DBStatusCacheHit, false)
		misses, _, err2 := own.(sqlite.DBStatus).Status(sqlite.DBStatusCacheMiss, false)
		n = hits + misses
		return errors.Join(err, err2)
	}))
	return n
}

// TestMongoStore_ClaimReadsAKeyOnce counts the commands: each reads the rest of a key.
func TestMongoStore_ClaimReadsAKeyOnce(t *testing.T) {
	t.Parallel()
	var finds atomic.Int64
	monitor := &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "find" {
			finds.Add(1)
		}
	}}
	client, err := mongo.Connect(options.Client().ApplyURI(mongoURL(t)).SetMonitor(monitor))
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	s := openMongo(t, mongoDatabase(t, client), &mongoClock{})
	if n := claimReads(t, s, func() int { return int(finds.Load()) }); n != 4 {
		t.Errorf("a claim of %d messages of a key took %d finds, want 4: the lanes, what is due, a letter that parks the key, the rest of the key", keyMessages, n)
	}
}

// claimShareReads lets 20 keys wait with 200 messages each, claims 100 of them, and returns by how much that has raised a counter.
func claimShareReads[Tx any](t *testing.T, s storetest.Store[Tx], counter func() int) int {
	t.Helper()
	const keys, ofKey, limit = 20, 200, 100
	lanes, parked := claimKeys(t, s, keys, ofKey)
	settleAll(t, s, parked, contract.Wait)
	before := counter()
	claims, err := s.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lanes, Limit: limit, Due: true, DueOnly: true})
	reads := counter() - before
	must(t, err)
	if len(claims) != limit {
		t.Errorf("claimed %d messages that wait, want %d", len(claims), limit)
	}
	return reads
}

// claimKeys enqueues messages of some keys and claims all for relay r1.
func claimKeys[Tx any](t *testing.T, s storetest.Store[Tx], keys, ofKey int) ([]contract.Lane, []contract.Claim) {
	t.Helper()
	ctx := t.Context()
	_, err := s.Transact(ctx, func(context.Context, Tx) (b outbox.Batch, _ error) {
		for i := range keys * ofKey {
			m := waybill.Message{ID: fmt.Sprint(i), Topic: "orders", Key: fmt.Sprint("k", i%keys), Source: "shop"}
			m.Complete()
			b.Messages = append(b.Messages, m)
		}
		return b, nil
	})
	must(t, err)
	lease, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Hour})
	must(t, err)
	claims, err := s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: keys * ofKey})
	must(t, err)
	return lease.Lanes, claims
}

func settleAll[Tx any](t *testing.T, s storetest.Store[Tx], claims []contract.Claim, outcome contract.Outcome) {
	t.Helper()
	list := make([]contract.Settlement, len(claims))
	for i := range claims {
		list[i] = contract.Settlement{Claim: &claims[i], Outcome: outcome}
	}
	_, err := s.SettleMessages(t.Context(), contract.SettleRequest{Node: "r1", Settlements: list, Archive: true})
	must(t, err)
}

// TestMySQLStore_ClaimReadsAShareOfEachKey: where many keys wait a claim does not read all that waits to take a part. It read 12,900
// of these rows, and after an outage that had let 100,000 messages wait the relay drained a tenth of what it does.
func TestMySQLStore_ClaimReadsAShareOfEachKey(t *testing.T) {
	t.Parallel()
	s := newMySQLStore(t, nil)
	s.db.SetMaxOpenConns(1) // the session counts
	if reads := claimShareReads(t, s, func() int { return mysqlRowsRead(t, s.db) }); reads > 2000 {
		t.Errorf("a claim of 100 messages of 20 keys with 200 each read %d rows, want at most 2,000", reads)
	}
}

func TestSQLiteStore_ClaimReadsAShareOfEachKey(t *testing.T) {
	t.Parallel()
	s := migratedSQLite(t, filepath.Join(t.TempDir(), "test.db"))
	s.db.SetMaxOpenConns(1) // the connection counts
	if reads := claimShareReads(t, s, func() int { return sqlitePages(t, s.db) }); reads > 600 {
		t.Errorf("a claim of 100 messages of 20 keys with 200 each read %d pages, want at most 600", reads)
	}
}

// TestMySQLStore_SettlesWaitingTogether: messages of a key that go to wait, and that are published after they have waited, take the same
// number of statements however many they are.
func TestMySQLStore_SettlesWaitingTogether(t *testing.T) {
	t.Parallel()
	var parked, published []int
	for _, n := range []int{10, 200} {
		s := newMySQLStore(t, nil)
		s.db.SetMaxOpenConns(1) // the session counts
		lanes, claims := claimKeys(t, s, 1, n)
		before := mysqlStatements(t, s.db)
		settleAll(t, s, claims, contract.Wait)
		parked = append(parked, mysqlStatements(t, s.db)-before)
		claims, err := s.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: lanes, Limit: n, Due: true, DueOnly: true})
		must(t, err)
		if len(claims) != n {
			t.Errorf("claimed %d messages that wait, want %d", len(claims), n)
		}
		before = mysqlStatements(t, s.db)
		settleAll(t, s, claims, contract.Published)
		published = append(published, mysqlStatements(t, s.db)-before)
	}
	if parked[0] != parked[1] {
		t.Errorf("10 and 200 messages that went to wait took %v statements", parked)
	}
	if published[0] != published[1] {
		t.Errorf("10 and 200 messages that were published after they had waited took %v statements", published)
	}
}

// mysqlStatements returns how many statements the session has run; that it asks counts as one.
func mysqlStatements(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	var name string
	must(t, db.QueryRow("SHOW SESSION STATUS LIKE 'Questions'").Scan(&name, &n))
	return n
}
