package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

func recordTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"added and found", recordFound[Tx], []need{wordyInbox}},
		{"what every store keeps", recordKept[Tx], nil},
		{"without extra data", recordBare[Tx], nil},
		{"there already", recordTwice[Tx], nil},
		{"rolled back", recordRolledBack[Tx], nil},
		{"clears attempts", recordRetried[Tx], nil},
		{"keeps a message from being processed", recordGates[Tx], nil},
		{"of a dead letter", recordDead[Tx], nil},
		{"two add it at once", recordAtOnce[Tx], []need{concurrentWriters}},
		{"removed for one tenant", recordsRemoved[Tx], nil},
		{"removal rolled back", recordsKept[Tx], nil},
		{"removal for no tenant", recordsOfAll[Tx], nil},
	}
}

// inTx runs fn in a transaction of the test's, and commits it.
func (e *env[Tx]) inTx(fn func(tx Tx)) {
	e.Helper()
	tx := e.begin()
	fn(tx)
	e.commit(tx)
}

func (e *env[Tx]) addRecord(tx Tx, rec inbox.Record, want bool) {
	e.Helper()
	added, err := e.s.AddRecord(e.ctx, tx, rec)
	e.must(err, "AddRecord")
	if added != want {
		e.Fatalf("AddRecord(%+v) = %v, want %v", rec.Key, added, want)
	}
}

func (e *env[Tx]) addRecords(recs ...inbox.Record) {
	e.Helper()
	e.inTx(func(tx Tx) {
		for _, rec := range recs {
			e.addRecord(tx, rec, true)
		}
	})
}

// findRecord returns the record with the given key, and checks whether there is one.
func (e *env[Tx]) findRecord(key inbox.Key, want bool) (rec inbox.StoredRecord) {
	e.Helper()
	e.inTx(func(tx Tx) {
		var found bool
		var err error
		rec, found, err = e.s.FindRecord(e.ctx, tx, key)
		e.must(err, "FindRecord")
		if found != want {
			e.Fatalf("FindRecord(%+v) found one: %v, want %v", key, found, want)
		}
	})
	return rec
}

func (e *env[Tx]) removeRecords(tx Tx, tenant string, limit, want int) {
	e.Helper()
	n, err := e.s.RemoveRecords(e.ctx, tx, tenant, week, limit)
	e.must(err, "RemoveRecords")
	if n != want {
		e.Fatalf("RemoveRecords(%q, limit %d) = %d, want %d", tenant, limit, n, want)
	}
}

// recordOf returns a record with every field set.
func recordOf(id, tenant string) inbox.Record {
	m := msg(id, "k")
	m.Tenant, m.Type, m.IdempotencyKey = tenant, "order.created@v2", "idem-"+id
	rec := inbox.RecordOf("billing", &m)
	rec.Extra = json.RawMessage(`{"by": "O'Neil", "n": [1, 2]}`)
	return rec
}

func recordFound[Tx any](e *env[Tx]) {
	want := recordOf("a", "ténant")
	e.addRecords(want)
	got := e.findRecord(want.Key, true)
	e.wantRecent("ProcessedAt", got.ProcessedAt, 0)
	if got.Dead || !sameJSON(got.Extra, want.Extra) {
		e.Errorf("record = %+v with extra data %s", got, got.Extra)
	}
	want.Extra, got.Extra = nil, nil
	if !reflect.DeepEqual(got.Record, want) {
		e.Errorf("record = %+v, want %+v", got.Record, want)
	}
	other := want.Key
	other.Consumer = "shipping"
	if got := e.findRecord(other, false); !reflect.DeepEqual(got, inbox.StoredRecord{}) {
		e.Errorf("record that is not there = %+v, want the zero value", got)
	}
}

// recordKept: also where the inbox is terse.
func recordKept[Tx any](e *env[Tx]) {
	want := recordOf("a", "acme")
	e.addRecords(want)
	got := e.findRecord(want.Key, true)
	e.wantRecent("ProcessedAt", got.ProcessedAt, 0)
	if got.Key != want.Key || got.Type != want.Type || got.PayloadHash == "" || got.Dead {
		e.Errorf("record = %+v, want that of %+v", got, want)
	}
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

func recordBare[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	rec.Extra, rec.PayloadHash = nil, ""
	e.addRecords(rec)
	if got := e.findRecord(rec.Key, true); got.Extra != nil || got.PayloadHash != "" {
		e.Errorf("record = %+v, want it without extra data and hash", got)
	}
}

// recordTwice: in the same transaction, and in a later one.
func recordTwice[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	e.inTx(func(tx Tx) {
		e.addRecord(tx, rec, true)
		e.addRecord(tx, rec, false)
	})
	rec.Type, rec.PayloadHash = "other", "other"
	tx := e.begin()
	e.addRecord(tx, rec, false)
	e.rollback(tx)
	if got := e.findRecord(rec.Key, true); got.Type != "order.created@v2" {
		e.Errorf("type = %q, want that of the first record", got.Type)
	}
}

func recordRolledBack[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	tx := e.begin()
	e.effect(tx, "a")
	e.addRecord(tx, rec, true)
	e.rollback(tx)
	e.findRecord(rec.Key, false)
	e.wantEffects("a", 0)
}

func recordRetried[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	rec.Retried = true
	e.saveAttempt(rec.Key, 2, time.Hour)
	e.addRecords(rec)
	got, err := e.s.FailedAttempts(e.ctx, rec.Key)
	e.must(err, "FailedAttempts")
	if got != (contract.Attempts{}) {
		e.Errorf("attempts = %+v, want none", got)
	}
}

// recordGates: ProcessOnce and AddRecord exclude each other.
func recordGates[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	e.addRecords(rec)
	e.processRecord(rec, inbox.Duplicate)
	other := recordOf("b", "acme")
	e.processRecord(other, inbox.Processed)
	tx := e.begin()
	e.addRecord(tx, other, false)
	e.rollback(tx)
}

func recordDead[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.bury("billing", m)
	key := inbox.KeyOf("billing", &m)
	if got := e.findRecord(key, true); !got.Dead {
		e.Errorf("record = %+v, want a dead one", got)
	}
	e.advance(2 * week)
	e.inTx(func(tx Tx) { e.removeRecords(tx, key.Tenant, 10, 0) })
	e.findRecord(key, true)
}

// recordAtOnce: the second waits for the first and learns its outcome, or fails at once if the
// store cannot wait.
func recordAtOnce[Tx any](e *env[Tx]) {
	for _, commits := range []bool{true, false} {
		rec := recordOf(map[bool]string{true: "committed", false: "rolled back"}[commits], "acme")
		first := e.begin()
		e.addRecord(first, rec, true)
		second := e.begin()
		answers := make(chan error, 1)
		go func() {
			added, err := e.s.AddRecord(e.ctx, second, rec)
			switch {
			case waybill.IsConflict(err): // a strict isolation level returns this instead
				err = nil
			case err == nil && added == commits:
				err = errors.New("the second received the contrary")
			}
			answers <- err
		}()
		if e.h.Features.ClashesAtOnce {
			e.must(<-answers, "the second's AddRecord, while the first has not ended")
			answers <- nil
		} else {
			select {
			case err := <-answers:
				e.Errorf("the second got %v before the first had ended", err)
				answers <- err
			case <-e.soon():
			}
		}
		if commits {
			e.commit(first)
		} else {
			e.rollback(first)
		}
		e.must(<-answers, "the second's AddRecord")
		e.rollback(second)
		e.findRecord(rec.Key, commits)
	}
}

func recordsRemoved[Tx any](e *env[Tx]) {
	e.addRecords(recordOf("a", "acme"), recordOf("b", "acme"), recordOf("c", "acme"), recordOf("a", "zenith"))
	e.advance(week + minute)
	e.addRecords(recordOf("new", "acme"))
	e.inTx(func(tx Tx) { e.removeRecords(tx, "acme", 2, 2) })
	e.inTx(func(tx Tx) {
		e.removeRecords(tx, "acme", 2, 1)
		e.removeRecords(tx, "acme", 2, 0)
		e.removeRecords(tx, "nobody", 2, 0)
	})
	for _, id := range []string{"a", "b", "c"} {
		e.findRecord(recordOf(id, "acme").Key, false)
	}
	e.findRecord(recordOf("new", "acme").Key, true)
	e.findRecord(recordOf("a", "zenith").Key, true)
}

func recordsKept[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	e.addRecords(rec)
	e.advance(week + minute)
	tx := e.begin()
	e.removeRecords(tx, "acme", 10, 1)
	e.rollback(tx)
	e.findRecord(rec.Key, true)
}

// recordsOfAll: an empty tenant must not mean all tenants.
func recordsOfAll[Tx any](e *env[Tx]) {
	rec := recordOf("a", "acme")
	e.addRecords(rec)
	e.advance(week + minute)
	tx := e.begin()
	_, err := e.s.RemoveRecords(context.Background(), tx, "", week, 10)
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "tenant" {
		e.Errorf("RemoveRecords for no tenant = %v, want the field refused", err)
	}
	e.rollback(tx)
	e.findRecord(rec.Key, true)
}
