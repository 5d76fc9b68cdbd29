package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != field {
		t.Errorf("error = %v, want the field %s refused", err, field)
	}
}

func newRecords(t *testing.T, tab *table, tenant string) *Records[noTx] {
	t.Helper()
	r, err := NewRecords[noTx](tab, tenant, "billing")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecords_MarkAndGet(t *testing.T) {
	t.Parallel()
	tab := newTable()
	r := newRecords(t, tab, "acme")
	if done, err := r.IsProcessed(t.Context(), noTx{}, "m-1"); done || err != nil {
		t.Fatalf("IsProcessed() = %v, %v before the mark", done, err)
	}
	d := Details{Payload: []byte("abc"), Source: "order-service", Extra: json.RawMessage(`{"by":"me"}`)}
	marked, err := r.MarkProcessed(t.Context(), noTx{}, "m-1", "OrderCreated", d)
	if err != nil {
		t.Fatal(err)
	}
	want := Record{
		Tenant: "acme", Consumer: "billing", MessageID: "m-1", Type: "OrderCreated", Source: "order-service", ProcessedAt: tab.now,
		PayloadHash: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", Extra: json.RawMessage(`{"by":"me"}`),
	}
	if !reflect.DeepEqual(marked, want) {
		t.Errorf("MarkProcessed() = %+v, want %+v", marked, want)
	}
	got, found, err := r.GetRecord(t.Context(), noTx{}, "m-1")
	if !found || err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("GetRecord() = %+v, %v, %v, want %+v", got, found, err, want)
	}
	if done, _ := r.IsProcessed(t.Context(), noTx{}, "m-1"); !done {
		t.Error("IsProcessed() = false after the mark")
	}
	if done, _ := newRecords(t, tab, "zenith").IsProcessed(t.Context(), noTx{}, "m-1"); done {
		t.Error("another tenant sees the record")
	}
}

// TestRecords_Extra: extra data is stored as the caller gave it, wrapped only where it must be, and always
// comes back as it was given.
func TestRecords_Extra(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ source, extra, want string }{
		{"", `{"by":"me"}`, `{"by":"me"}`},
		{"", ` {"by":"me","source":"x"}`, ` {"by":"me","source":"x"}`},
		{"", `{}`, `{}`},
		{"", "", ""},
		{"shop", "", `{"source":"shop"}`},
		{"shop", `{"by":"me"}`, `{"source":"shop","extra":{"by":"me"}}`},
		{"", `{"source":"x"}`, `{"extra":{"source":"x"}}`},
		{"", `{"extra":[1],"source":7}`, `{"extra":{"extra":[1],"source":7}}`},
		{"", `[1]`, `{"extra":[1]}`},
		{"", `null`, `{"extra":null}`},
	} {
		tab := newTable()
		r := newRecords(t, tab, "")
		d := Details{Source: tt.source}
		if tt.extra != "" {
			d.Extra = json.RawMessage(tt.extra)
		}
		rec, err := r.MarkProcessed(t.Context(), noTx{}, "m", "t", d)
		if err != nil || rec.Source != tt.source || string(rec.Extra) != tt.extra {
			t.Errorf("MarkProcessed() of %q, %q = %+v, %v", tt.source, tt.extra, rec, err)
		}
		if got := string(tab.rows[r.key("m")].Extra); got != tt.want {
			t.Errorf("stored of %q, %q is %s, want %s", tt.source, tt.extra, got, tt.want)
		}
	}
}

func TestRecords_SecondMark(t *testing.T) {
	t.Parallel()
	r := newRecords(t, newTable(), "")
	if _, err := r.MarkProcessed(t.Context(), noTx{}, "m-1", "OrderCreated", Details{}); err != nil {
		t.Fatal(err)
	}
	if rec, err := r.MarkProcessed(t.Context(), noTx{}, "m-1", "Other", Details{}); !errors.Is(err, ErrAlreadyProcessed) {
		t.Errorf("second MarkProcessed() = %+v, %v, want ErrAlreadyProcessed", rec, err)
	}
	got, _, _ := r.GetRecord(t.Context(), noTx{}, "m-1")
	if want := (Record{Tenant: "default", Consumer: "billing", MessageID: "m-1", Type: "OrderCreated", ProcessedAt: got.ProcessedAt}); !reflect.DeepEqual(got, want) {
		t.Errorf("record = %+v, want that of the first mark, %+v", got, want)
	}
}

func TestRecords_Cleanup(t *testing.T) {
	t.Parallel()
	tab := newTable()
	acme, zenith := newRecords(t, tab, "acme"), newRecords(t, tab, "zenith")
	mark := func(r *Records[noTx], id string) {
		t.Helper()
		if _, err := r.MarkProcessed(t.Context(), noTx{}, id, "t", Details{}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range cleanupBatch + 1 {
		mark(acme, "old-"+strings.Repeat("i", i))
	}
	mark(zenith, "old")
	tab.now = tab.now.Add(30 * 24 * time.Hour)
	mark(acme, "new")
	for _, c := range []struct{ days, want int }{{31, 0}, {0, cleanupBatch + 1}, {30, 0}} {
		if n, err := acme.CleanupOldRecords(t.Context(), noTx{}, c.days); n != c.want || err != nil {
			t.Errorf("CleanupOldRecords(%d) = %d, %v, want %d", c.days, n, err, c.want)
		}
	}
	if done, _ := zenith.IsProcessed(t.Context(), noTx{}, "old"); !done {
		t.Error("the clean-up of one tenant removed a record of another")
	}
	_, err := acme.CleanupOldRecords(t.Context(), noTx{}, -1)
	wantInvalid(t, err, "olderThanDays")
}

func TestRecords_Refused(t *testing.T) {
	t.Parallel()
	_, err := NewRecords[noTx](nil, "acme", "billing")
	wantInvalid(t, err, "recorder")
	_, err = NewRecords[noTx](newTable(), "acme", "")
	wantInvalid(t, err, "consumer")
	r := newRecords(t, newTable(), "acme")
	_, err = r.MarkProcessed(t.Context(), noTx{}, "", "t", Details{})
	wantInvalid(t, err, "id")
	_, err = r.MarkProcessed(t.Context(), noTx{}, "m", "t", Details{Extra: json.RawMessage("{")})
	wantInvalid(t, err, "Details.Extra")
}

func TestStates(t *testing.T) {
	t.Parallel()
	tab := newTable()
	s, err := NewStates[noTx](tab, "acme")
	if err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Get(t.Context(), noTx{}, "m", "billing"); found || err != nil {
		t.Fatalf("Get() found one: %v, %v", found, err)
	}
	for _, consumer := range []string{"billing", "shipping"} {
		if added, err := s.TryAdd(t.Context(), noTx{}, State{MessageID: "m", ConsumerID: consumer}); !added || err != nil {
			t.Fatalf("TryAdd(%s) = %v, %v", consumer, added, err)
		}
	}
	if added, err := s.TryAdd(t.Context(), noTx{}, State{MessageID: "m", ConsumerID: "billing"}); added || !errors.Is(err, ErrAlreadyProcessed) {
		t.Errorf("second TryAdd() = %v, %v, want false with ErrAlreadyProcessed", added, err)
	}
	got, found, err := s.Get(t.Context(), noTx{}, "m", "billing")
	if want := (State{MessageID: "m", ConsumerID: "billing", ProcessedAt: tab.now}); !found || err != nil || got != want {
		t.Errorf("Get() = %+v, %v, %v, want %+v", got, found, err, want)
	}
	for _, st := range []State{{"m", "", time.Time{}}, {"m", " \t", time.Time{}}} {
		_, err := s.TryAdd(t.Context(), noTx{}, st)
		wantInvalid(t, err, "ConsumerID")
		_, _, err = s.Get(t.Context(), noTx{}, st.MessageID, st.ConsumerID)
		wantInvalid(t, err, "ConsumerID")
	}
	_, err = s.TryAdd(t.Context(), noTx{}, State{ConsumerID: "billing"})
	wantInvalid(t, err, "MessageID")
	_, err = NewStates[noTx](nil, "acme")
	wantInvalid(t, err, "recorder")
}

// oneOutcome is an inbox whose gate has decided.
type oneOutcome struct {
	contract.Inbox[noTx]
	outcome inbox.Outcome
}

func (b oneOutcome) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(context.Context, noTx) error) (inbox.Outcome, error) {
	if b.outcome == inbox.Processed {
		return b.outcome, fn(ctx, noTx{})
	}
	return b.outcome, nil
}

func TestProcessor(t *testing.T) {
	t.Parallel()
	broken := errors.New("card expired")
	for _, c := range []struct {
		name      string
		outcome   inbox.Outcome
		handler   error
		processed bool
		log       string
	}{
		{"first delivery", inbox.Processed, nil, true, ""},
		{"handler fails", inbox.Processed, broken, false, ""},
		{"redelivery", inbox.Duplicate, nil, false, "level=INFO msg=\"duplicate skipped\" message_id=m-1 type=order.created consumer=billing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			p, err := NewProcessor(oneOutcome{outcome: c.outcome}, "billing", slog.New(slog.NewTextHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			m := &waybill.Message{ID: "m-1", Type: "order.created"}
			processed, err := p.Process(t.Context(), m, func(context.Context, noTx) error { return c.handler })
			if processed != c.processed || !errors.Is(err, c.handler) {
				t.Errorf("Process() = %v, %v, want %v, %v", processed, err, c.processed, c.handler)
			}
			if got := log.String(); !strings.Contains(got, c.log) || c.log == "" && got != "" {
				t.Errorf("log = %q, want %q", got, c.log)
			}
		})
	}
	_, err := NewProcessor[noTx](nil, "billing", nil)
	wantInvalid(t, err, "box")
	_, err = NewProcessor(oneOutcome{}, " ", nil)
	wantInvalid(t, err, "consumer")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	store := &leases{state: map[string]lease.Status{"held": lease.Busy, "free": lease.Released}}
	k, err := NewKeys(store)
	if err != nil {
		t.Fatal(err)
	}
	delete(store.state, "free")
	for _, want := range []error{nil, ErrAlreadyProcessed} {
		if err := k.MarkProcessed(t.Context(), "rabbit:billing:order:1"); !errors.Is(err, want) {
			t.Errorf("MarkProcessed() = %v, want %v", err, want)
		}
		if done, err := k.IsProcessed(t.Context(), "rabbit:billing:order:1"); !done || err != nil {
			t.Errorf("IsProcessed() = %v, %v after a mark", done, err)
		}
	}
	if err := k.MarkProcessed(t.Context(), "held"); !errors.Is(err, inbox.ErrBusy) {
		t.Errorf("MarkProcessed() of a leased key = %v, want ErrBusy", err)
	}
	for _, key := range []string{"held", "never seen"} {
		if done, err := k.IsProcessed(t.Context(), key); done || err != nil {
			t.Errorf("IsProcessed(%q) = %v, %v", key, done, err)
		}
	}
	store.lost = true
	if err := k.MarkProcessed(t.Context(), "slow"); !errors.Is(err, inbox.ErrBusy) {
		t.Errorf("MarkProcessed() of a lost lease = %v, want ErrBusy", err)
	}
	wantInvalid(t, k.MarkProcessed(t.Context(), ""), "lease.Request.Key")
	_, err = NewKeys(nil)
	wantInvalid(t, err, "store")
}

func TestIDs(t *testing.T) {
	t.Parallel()
	store := &leases{state: make(map[string]lease.Status)}
	ids := func(group lease.Key) *IDs {
		t.Helper()
		s, err := NewIDs(store, group)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	billing := ids(lease.Key{Bus: "rabbit", Group: "billing", Alias: "ignored"})
	if err := billing.MarkAsProcessed(t.Context(), "m-1"); err != nil {
		t.Fatal(err)
	}
	if _, ok := store.state["rabbit:billing::m-1"]; !ok {
		t.Errorf("keys = %v, want rabbit:billing::m-1", store.state)
	}
	for _, c := range []struct {
		ids  *IDs
		id   string
		want bool
	}{
		{billing, "m-1", true},
		{billing, "m-2", false},
		{ids(lease.Key{Bus: "rabbit", Group: "shipping"}), "m-1", false},
		{ids(lease.Key{Tenant: "acme", Bus: "rabbit", Group: "billing"}), "m-1", false},
	} {
		if got, err := c.ids.Exists(t.Context(), c.id); got != c.want || err != nil {
			t.Errorf("Exists(%s) of %+v = %v, %v, want %v", c.id, c.ids.group, got, err, c.want)
		}
	}
	if err := billing.MarkAsProcessed(t.Context(), "m-1"); !errors.Is(err, ErrAlreadyProcessed) {
		t.Errorf("second MarkAsProcessed() = %v, want ErrAlreadyProcessed", err)
	}
	_, err := billing.Exists(t.Context(), " ")
	wantInvalid(t, err, "messageID")
	wantInvalid(t, billing.MarkAsProcessed(t.Context(), ""), "messageID")
	_, err = NewIDs(store, lease.Key{Bus: "rabbit"})
	wantInvalid(t, err, "group.Group")
}

func newCheckThenAct(t *testing.T, store KeyStore) *CheckThenAct {
	t.Helper()
	c, err := NewCheckThenAct(store)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(t *testing.T, c *CheckThenAct, key string, limit int, want lease.Status, attempts int) lease.Lease {
	t.Helper()
	got, err := c.TryBegin(t.Context(), lease.Request{Key: key, TTL: time.Minute, MaxAttempts: limit})
	if err != nil || got.Status != want || got.Attempts != attempts {
		t.Fatalf("TryBegin(%s) = %+v, %v, want %s with %d attempts", key, got, err, want, attempts)
	}
	return lease.Lease{Key: key, ID: got.LeaseID, Token: got.Token}
}

func TestCheckThenAct(t *testing.T) {
	t.Parallel()
	store := newKeyStore()
	c := newCheckThenAct(t, store)
	if rec, err := c.ReadLease(t.Context(), "k"); rec.Status != lease.Unknown || err != nil {
		t.Errorf("ReadLease() = %+v, %v", rec, err)
	}
	l := begin(t, c, "k", 0, lease.Acquired, 1)
	begin(t, c, "k", 0, lease.Acquired, 2) // what it cannot promise: two at a time
	if got, err := c.RenewLease(t.Context(), l, time.Minute); got.Status != lease.Acquired || got.LeaseID != l.ID || err != nil {
		t.Errorf("RenewLease() = %+v, %v", got, err)
	}
	for range 2 {
		if got, err := c.MarkProcessed(t.Context(), l); got != lease.Processed || err != nil {
			t.Errorf("MarkProcessed() = %v, %v", got, err)
		}
	}
	begin(t, c, "k", 0, lease.Processed, 0)
	if !store.done["k"] {
		t.Error("the user's store was not marked")
	}
	if rec, err := c.ReadLease(t.Context(), "k"); rec.Status != lease.Processed || err != nil {
		t.Errorf("ReadLease() = %+v, %v", rec, err)
	}
}

func TestCheckThenAct_Attempts(t *testing.T) {
	t.Parallel()
	c := newCheckThenAct(t, newKeyStore())
	release := func(l lease.Lease, uncounted bool) {
		t.Helper()
		if got, err := c.ReleaseLease(t.Context(), l, lease.Release{Uncounted: uncounted}); got != lease.Released || err != nil {
			t.Errorf("ReleaseLease() = %v, %v", got, err)
		}
	}
	release(begin(t, c, "k", 2, lease.Acquired, 1), true)
	release(begin(t, c, "k", 2, lease.Acquired, 1), false)
	release(begin(t, c, "k", 2, lease.Acquired, 2), true)
	release(begin(t, c, "k", 2, lease.Acquired, 2), false)
	begin(t, c, "k", 2, lease.Exhausted, 2)
	begin(t, c, "other", 2, lease.Acquired, 1)
	for i := range checkThenActKeys + 10 {
		begin(t, c, "key "+strings.Repeat("i", i%500)+string(rune('a'+i/500)), 0, lease.Acquired, 1)
	}
	if n := len(c.attempts); n != checkThenActKeys {
		t.Errorf("attempts of %d keys are counted, want %d at most", n, checkThenActKeys)
	}
}

// TestCheckThenAct_KeepsNeither a payload nor a wait.
func TestCheckThenAct_KeepsNeither(t *testing.T) {
	t.Parallel()
	c := newCheckThenAct(t, newKeyStore())
	l := begin(t, c, "k", 0, lease.Acquired, 1)
	if got, err := c.ReleaseLease(t.Context(), l, lease.Release{Wait: time.Hour}); got != lease.Released || err != nil {
		t.Errorf("ReleaseLease() = %v, %v", got, err)
	}
	l = begin(t, c, "k", 0, lease.Acquired, 2)
	if _, err := c.MarkProcessed(t.Context(), l); err != nil {
		t.Error(err)
	}
	if a, err := c.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute, PayloadHash: "another"}); a.Status != lease.Processed || a.Conflict || err != nil {
		t.Errorf("TryBegin() = %+v, %v, want it processed, without a conflict", a, err)
	}
	_, err := c.ReleaseLease(t.Context(), l, lease.Release{Wait: -1})
	wantInvalid(t, err, "Release.Wait")
}

func TestCheckThenAct_StoreFails(t *testing.T) {
	t.Parallel()
	store := newKeyStore()
	store.err = waybill.UnavailableError(errors.New("connection refused"))
	c := newCheckThenAct(t, store)
	if _, err := c.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute}); !waybill.IsUnavailable(err) {
		t.Errorf("TryBegin() = %v, want the store's error", err)
	}
	if _, err := c.MarkProcessed(t.Context(), lease.Lease{Key: "k"}); !waybill.IsUnavailable(err) {
		t.Errorf("MarkProcessed() = %v, want the store's error", err)
	}
	if _, err := c.ReadLease(t.Context(), "k"); !waybill.IsUnavailable(err) {
		t.Errorf("ReadLease() = %v, want the store's error", err)
	}
	_, err := c.TryBegin(t.Context(), lease.Request{TTL: time.Minute})
	wantInvalid(t, err, "lease.Request.Key")
	_, err = NewCheckThenAct(nil)
	wantInvalid(t, err, "store")
}
