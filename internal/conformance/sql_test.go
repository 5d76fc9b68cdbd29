package conformance

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/storetest"
)

// sqlStore is a store over database/sql that keeps its clock in a table.
type sqlStore interface {
	storetest.Store[*sql.Tx]
	pool() *sql.DB
	exec(stmt string, args ...any) error
	table(name string) string // quoted
}

// sqlHarness is what harnesses of such stores have in common. key is the quoted name of that
// column.
func sqlHarness(features storetest.Features, key string) storetest.Harness[*sql.Tx] {
	own := func(s storetest.Store[*sql.Tx]) sqlStore { return s.(sqlStore) }
	return storetest.Harness[*sql.Tx]{
		Features: features,
		Begin:    func(t *testing.T, s storetest.Store[*sql.Tx]) *sql.Tx { t.Helper(); return beginSQL(t, own(s).pool()) },
		Commit:   func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Commit()) },
		Rollback: func(t *testing.T, tx *sql.Tx) { t.Helper(); must(t, tx.Rollback()) },
		Effect: func(ctx context.Context, _ storetest.Store[*sql.Tx], tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects (name) VALUES (?)", name)
			return err
		},
		Effects: func(t *testing.T, s storetest.Store[*sql.Tx], name string) (n int) {
			t.Helper()
			must(t, own(s).pool().QueryRow("SELECT count(*) FROM effects WHERE name = ?", name).Scan(&n))
			return n
		},
		Advance: func(t *testing.T, s storetest.Store[*sql.Tx], d time.Duration) {
			t.Helper()
			must(t, own(s).exec("UPDATE "+own(s).table("settings")+" SET clock_offset_us = clock_offset_us + ?", d.Microseconds()))
		},
		Forget: func(t *testing.T, s storetest.Store[*sql.Tx], k inbox.Key) {
			t.Helper()
			must(t, own(s).exec("DELETE FROM "+own(s).table("inbox")+" WHERE consumer = ? AND message_key = ?", k.Consumer, k.Message))
		},
		InsertRaw: func(s storetest.Store[*sql.Tx], raw storetest.Raw) error {
			if raw.Headers == "" && raw.Key == "" {
				return own(s).exec("INSERT INTO "+own(s).table("outbox")+" (topic, payload) VALUES (?, ?)", raw.Topic, raw.Payload)
			}
			return own(s).exec("INSERT INTO "+own(s).table("outbox")+" (topic, payload, "+key+", headers) VALUES (?, ?, ?, ?)",
				raw.Topic, raw.Payload, raw.Key, raw.Headers)
		},
	}
}

// checkForeign claims the two messages that a foreign program has enqueued: a text, whose source
// is the one that Migrate received, and bytes with a source of their own.
func checkForeign(t *testing.T, s contract.Source, source string) {
	t.Helper()
	ctx := context.Background()
	lease, err := s.RenewLanes(ctx, contract.LeaseRequest{Node: "r1", Join: true, TTL: time.Minute})
	must(t, err)
	claims, err := s.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10})
	must(t, err)
	if len(claims) != 2 {
		t.Fatalf("claimed %d messages, want 2", len(claims))
	}
	text, bytes := claims[0], claims[1]
	if text.Malformed != nil || string(text.Message.Payload) != `{"s":"\u0000 \n"}` || text.Message.Source != source {
		t.Errorf("message = %+v (%v), want the text byte for byte and the source that Migrate received", text.Message, text.Malformed)
	}
	if age := time.Since(text.Message.Time); age.Abs() > time.Minute {
		t.Errorf("Time = %v, want about now", text.Message.Time)
	}
	if bytes.Malformed != nil || string(bytes.Message.Payload) != "\x00\xff" || bytes.Message.Source != "camera" {
		t.Errorf("message = %+v (%v), want the bytes and its own source", bytes.Message, bytes.Malformed)
	}
}
