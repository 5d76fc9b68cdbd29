package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/store/pgstore"
)

// childTTL is how long a child's lease of a key lasts. In life it is 30 s and more.
const childTTL = time.Second

// hold leases a key and renews the lease until it is lost. It then does all that a holder may
// do, and says what came of it.
func (c child) hold(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	answer, err := store.TryBegin(ctx, lease.Request{Key: c.IDs[0], Owner: "child", TTL: childTTL})
	if err != nil {
		return err
	}
	fmt.Println(answer.Status)
	l := lease.Lease{Key: c.IDs[0], ID: answer.LeaseID, Token: answer.Token}
	for answer.Status == lease.Acquired {
		<-time.After(childTTL / 3)
		if answer, err = store.RenewLease(ctx, l, childTTL); err != nil {
			return err
		}
		fmt.Println("renewed:", answer.Status)
	}
	marked, err := store.MarkProcessed(ctx, l)
	if err != nil {
		return err
	}
	released, err := store.ReleaseLease(ctx, l, lease.Release{})
	if err != nil {
		return err
	}
	uncounted, err := store.ReleaseLease(ctx, l, lease.Release{Uncounted: true})
	if err != nil {
		return err
	}
	fmt.Println("too late:", marked, released, uncounted)
	return nil
}

// TestStoppedHolder (AS-43) stops a process past its lease of a key. When it goes on, the key is
// somebody else's, and it changes nothing.
//
// Scale: the lease is 1 s instead of 30 s.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sessions[0])
	for _, processed := range []bool{false, true} {
		t.Run(fmt.Sprintf("processed by the other one %v", processed), func(t *testing.T) {
			t.Parallel()
			key := fmt.Sprint("key ", processed)
			holder := w.startChild(t, child{Role: "holder", IDs: []string{key}})
			holder.wait(t, string(lease.Acquired))
			holder.wait(t, "renewed: "+string(lease.Acquired))
			holder.stop(t)

			var mine lease.Answer
			eventually(t, "the lease of the stopped process ends", func() bool {
				var err error
				if mine, err = w.store.TryBegin(t.Context(), lease.Request{Key: key, Owner: "parent", TTL: time.Hour}); err != nil {
					t.Fatal(err)
				}
				return mine.Status == lease.Acquired
			})
			if mine.Token != 2 || mine.Attempts != 2 {
				t.Errorf("TryBegin() = %+v, want token and attempt 2", mine)
			}
			l := lease.Lease{Key: key, ID: mine.LeaseID, Token: mine.Token}
			if processed {
				w.mark(t, l)
			}
			before := w.lease(t, key)
			holder.resume(t)
			holder.wait(t, "renewed: "+string(lease.Lost))
			holder.wait(t, fmt.Sprint("too late: ", lease.Lost, " ", lease.Lost, " ", lease.Lost))
			if after := w.lease(t, key); after != before || after.Owner != "parent" {
				t.Errorf("record = %+v after the stopped process went on, want it as it was, %+v", after, before)
			}
			w.mark(t, l)
		})
	}
}

func (w *world) mark(t *testing.T, l lease.Lease) {
	t.Helper()
	if status, err := w.store.MarkProcessed(t.Context(), l); err != nil || status != lease.Processed {
		t.Fatalf("MarkProcessed() = %s, %v, want Processed", status, err)
	}
}

func (w *world) lease(t *testing.T, key string) lease.Record {
	t.Helper()
	rec, err := w.store.ReadLease(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestLeaseRoundTrips: each call waits for the server once, whatever it finds, and for however
// many keys.
func TestLeaseRoundTrips(t *testing.T) {
	t.Parallel()
	w := newWorld(t, sessions[0])
	pool, counter := w.countedPool(t)
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var leases []lease.Lease
	begin := func(n int) func() error {
		return func() error {
			reqs := make([]lease.Request, n)
			for i := range reqs {
				reqs[i] = lease.Request{Key: fmt.Sprint("key ", len(leases)+i), TTL: time.Minute}
			}
			answers, err := store.TryBeginAll(ctx, reqs)
			for i, a := range answers {
				leases = append(leases, lease.Lease{Key: reqs[i].Key, ID: a.LeaseID})
			}
			return err
		}
	}
	again := func() error {
		_, err := store.TryBegin(ctx, lease.Request{Key: leases[0].Key, TTL: time.Minute})
		return err
	}
	for _, tc := range []struct {
		name string
		run  func() error
	}{
		{"begin", begin(1)},
		{"begin 50", begin(50)},
		{"busy", again},
		{"renew", func() error { _, err := store.RenewLease(ctx, leases[0], time.Minute); return err }},
		{"mark", func() error { _, err := store.MarkProcessed(ctx, leases[0]); return err }},
		{"processed", again},
		{"release", func() error { _, err := store.ReleaseLease(ctx, leases[1], lease.Release{}); return err }},
		{"mark all", func() error { _, err := store.MarkAllProcessed(ctx, leases[:50]); return err }},
		{"read", func() error { _, err := store.ReadLease(ctx, leases[0].Key); return err }},
		{"read nothing", func() error { _, err := store.ReadLease(ctx, "nothing"); return err }},
		{"release nothing", func() error {
			_, err := store.ReleaseLease(ctx, lease.Lease{Key: "nothing", ID: "x"}, lease.Release{})
			return err
		}},
	} {
		var trips int64
		for range 2 { // the first prepares statements
			before := counter.n.Load()
			if err := tc.run(); err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			trips = counter.n.Load() - before
		}
		if trips != 1 {
			t.Errorf("%s took %d round trips, want 1", tc.name, trips)
		}
	}
}
