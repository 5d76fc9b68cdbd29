package storetest

import (
	"context"
	"strings"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

func leaseTests() []leaseTest {
	return []leaseTest{
		{"begin, busy, mark, processed", leaseToProcessed, nil},                          // AS-41
		{"a lease that has run out is taken over", leaseTakenOver, nil},                  // AS-43
		{"a lease that has run out and is nobody else's", leaseRunOut, nil},              // AS-43
		{"released", leaseReleased, nil},                                                 // AS-44
		{"released with a wrong id", leaseWrongID, nil},                                  // AS-44
		{"released after it was processed", leaseReleasedLate, nil},                      // AS-44
		{"nothing known", leaseUnknown, nil},                                             // AS-45
		{"what is known in each state", leaseRecords, nil},                               // AS-45
		{"processed until the retention is over", leaseRetention, nil},                   // AS-47
		{"what somebody has is not purged", leasePurgeHeld, nil},                         // AS-47
		{"what nobody has is purged since it was last touched", leasePurgeReleased, nil}, // AS-47
		{"purged in batches", leasePurgeBatches, []func(LeaseFeatures) bool{purges}},
		{"renewed", leaseRenewed, nil},
		{"wrong requests", leaseInvalid, nil},
		{"the limits of a lease", leaseLimits, []func(LeaseFeatures) bool{anyTTL}},
		{"a context that has ended", leaseCancelled, nil},
		{"found after a restart", leasePersists, []func(LeaseFeatures) bool{leasesPersist}},
	}
}

func leaseToProcessed(e *leaseEnv) {
	l := e.begin("k", 1)
	if l.Token != 1 {
		e.Errorf("token = %d, want 1 for the first lease of a key", l.Token)
	}
	busy := e.wantBegin(request("k"), lease.Busy, 1)
	if busy.Remaining > leaseTTL {
		e.Errorf("busy for %v, want at most the lease of %v", busy.Remaining, leaseTTL)
	}
	e.mark(l, lease.Processed)
	e.wantBegin(request("k"), lease.Processed, 1)
	e.runOut()
	e.wantBegin(request("k"), lease.Processed, 1)
	e.wantUnchanged("k", func() {
		e.mark(l, lease.Processed) // again
		e.wantBegin(request("k"), lease.Processed, 1)
	})
}

func leaseTakenOver(e *leaseEnv) {
	old := e.begin("k", 1)
	e.runOut()
	l := e.begin("k", 2)
	if l.ID == old.ID || l.Token != old.Token+1 {
		e.Errorf("lease = %+v after %+v, want another id and the next token", l, old)
	}
	lost := func() {
		e.mark(old, lease.Lost)
		e.release(old, false, lease.Lost)
		e.release(old, true, lease.Lost)
		if a := e.renew(old, lease.Lost); a.Attempts != 0 {
			e.Errorf("RenewLease() = %+v, want no attempts of somebody else's", a)
		}
	}
	e.wantUnchanged("k", lost)
	e.wantRecord("k", lease.Busy, 2, 2)
	e.release(l, false, lease.Released)
	e.wantUnchanged("k", lost)
	e.mark(e.begin("k", 3), lease.Processed)
	e.wantUnchanged("k", lost)
	e.wantUnchanged("k", func() { e.mark(l, lease.Lost) })
}

func leaseRunOut(e *leaseEnv) {
	marked, renewed, released := e.begin("marked", 1), e.begin("renewed", 1), e.begin("released", 1)
	e.runOut()
	e.wantRecord("marked", lease.Expired, 1, 1)
	e.mark(marked, lease.Processed)
	e.wantBegin(request("marked"), lease.Processed, 1)
	e.renew(renewed, lease.Acquired)
	e.wantBegin(request("renewed"), lease.Busy, 1)
	e.release(released, false, lease.Released)
	e.begin("released", 2)
}

func leaseReleased(e *leaseEnv) {
	l := e.begin("k", 1)
	e.release(l, false, lease.Released)
	e.wantUnchanged("k", func() {
		e.release(l, false, lease.Released)
		e.release(l, true, lease.Released) // changes nothing a second time
		e.mark(l, lease.Released)
		if a := e.renew(l, lease.Released); a.Attempts != 1 {
			e.Errorf("RenewLease() = %+v, want 1 attempt", a)
		}
	})
	next := e.begin("k", 2)
	if next.ID == l.ID || next.Token != 2 {
		e.Errorf("lease = %+v, want another id and token 2", next)
	}
	e.wantUnchanged("k", func() { e.release(l, false, lease.Lost) })
}

func leaseWrongID(e *leaseEnv) {
	held := e.begin("k", 1)
	for _, id := range []string{lease.NewID(), strings.ToLower(held.ID)} {
		wrong := lease.Lease{Key: "k", ID: id, Token: held.Token}
		e.wantUnchanged("k", func() {
			e.release(wrong, false, lease.Lost)
			e.release(wrong, true, lease.Lost)
			e.mark(wrong, lease.Lost)
			e.renew(wrong, lease.Lost)
		})
	}
	// A text that cannot be the id of a lease may be refused, but never changes anything.
	for _, id := range []string{"", held.ID + " ", "\x00", "\xff", strings.Repeat("x", 5000)} {
		wrong := lease.Lease{Key: "k", ID: id, Token: held.Token}
		e.wantUnchanged("k", func() {
			if status, err := e.s.MarkProcessed(e.ctx, wrong); err == nil && status != lease.Lost {
				e.Errorf("MarkProcessed(%.10q) = %s, want LeaseLost", id, status)
			} else if err != nil {
				e.wantInvalid(err, "MarkProcessed")
			}
		})
	}
	e.mark(held, lease.Processed)
}

func leaseReleasedLate(e *leaseEnv) {
	l := e.begin("k", 1)
	e.mark(l, lease.Processed)
	e.wantUnchanged("k", func() {
		e.release(l, false, lease.Processed)
		e.release(l, true, lease.Processed)
		e.release(lease.Lease{Key: "k", ID: lease.NewID()}, true, lease.Lost)
		if a := e.renew(l, lease.Processed); a.Attempts != 1 {
			e.Errorf("RenewLease() = %+v, want 1 attempt", a)
		}
	})
	e.wantBegin(request("k"), lease.Processed, 1)
}

func leaseUnknown(e *leaseEnv) {
	e.read("k")
	nobody := lease.Lease{Key: "k", ID: lease.NewID(), Token: 1}
	e.mark(nobody, lease.Unknown)
	e.release(nobody, false, lease.Unknown)
	e.release(nobody, true, lease.Unknown)
	if a := e.renew(nobody, lease.Unknown); a.Attempts != 0 {
		e.Errorf("RenewLease() = %+v, want no attempts", a)
	}
	e.wantRecord("k", lease.Unknown, 0, 0)
	e.begin("k", 1)
}

// around reports whether two readings of one stored time are the same, to the resolution that
// every store has.
func around(a, b time.Time) bool { return a.Sub(b).Abs() < 10*time.Millisecond }

func leaseRecords(e *leaseEnv) {
	req := request("k")
	req.Owner = "node-1 / café ☕"
	a := e.wantBegin(req, lease.Acquired, 1)
	l := lease.Lease{Key: "k", ID: a.LeaseID, Token: a.Token}
	begun := e.wantRecord("k", lease.Busy, 1, 1)
	if begun.Owner != req.Owner || !around(begun.LeaseUntil, a.ExpiresAt) || !around(begun.FirstSeen, begun.LastSeen) ||
		!around(begun.FirstSeen.Add(leaseTTL), begun.LeaseUntil) {
		e.Errorf("begun: %+v, want the owner and the times of %+v", begun, a)
	}
	e.advance(leaseTTL / 2)
	renewed := e.renew(l, lease.Acquired)
	rec := e.wantRecord("k", lease.Busy, 1, 1)
	if !around(rec.LeaseUntil, renewed.ExpiresAt) || !rec.FirstSeen.Equal(begun.FirstSeen) || rec.LastSeen.Sub(begun.LastSeen) < leaseTTL/2 {
		e.Errorf("renewed: %+v, want it seen later than %+v, and the lease of %+v", rec, begun, renewed)
	}
	e.advance(leaseTTL / 2)
	e.release(l, false, lease.Released)
	released := e.wantRecord("k", lease.Released, 1, 1)
	if !released.LeaseUntil.IsZero() || released.Owner != req.Owner || released.LastSeen.Sub(rec.LastSeen) < leaseTTL/2 {
		e.Errorf("released: %+v, want the owner and no lease", released)
	}
	req.Owner = ""
	a = e.wantBegin(req, lease.Acquired, 2)
	e.runOut()
	if rec = e.wantRecord("k", lease.Expired, 2, 2); rec.Owner != "" || !around(rec.LeaseUntil, a.ExpiresAt) {
		e.Errorf("run out: %+v, want no owner, and when the lease has ended", rec)
	}
	e.mark(lease.Lease{Key: "k", ID: a.LeaseID, Token: a.Token}, lease.Processed)
	rec = e.wantRecord("k", lease.Processed, 2, 2)
	if !rec.LeaseUntil.IsZero() || !rec.FirstSeen.Equal(begun.FirstSeen) || rec.LastSeen.Sub(rec.FirstSeen) < 2*leaseTTL {
		e.Errorf("processed: %+v, want no lease, and first seen as at the beginning, %v", rec, begun.FirstSeen)
	}
}

func leaseRetention(e *leaseEnv) {
	l := e.begin("k", 1)
	e.advance(time.Hour)
	e.mark(l, lease.Processed)
	e.advance(LeaseRetention - 10*minute) // since it was processed
	e.purge(0)
	e.wantBegin(request("k"), lease.Processed, 1)
	e.wantRecord("k", lease.Processed, 1, 1)
	e.advance(20 * minute)
	e.purge(1)
	e.wantRecord("k", lease.Unknown, 0, 0)
	e.mark(l, lease.Unknown)
	e.begin("k", 1)
}

func leasePurgeHeld(e *leaseEnv) {
	l := e.begin("k", 1)
	e.advance(leaseTTL / 2)
	e.wantUnchanged("k", func() {
		n, err := e.s.PurgeLeases(e.ctx, time.Second, 1000)
		if e.must(err, "PurgeLeases"); n != 0 {
			e.Errorf("PurgeLeases(1s) = %d, want 0: somebody has the key", n)
		}
	})
	e.mark(l, lease.Processed)
}

func leasePurgeReleased(e *leaseEnv) {
	e.release(e.begin("released", 1), false, lease.Released)
	e.begin("run out", 1)
	e.advance(LeaseRetention - 10*minute)
	e.purge(0)
	e.wantRecord("released", lease.Released, 1, 1)
	e.wantRecord("run out", lease.Expired, 1, 1)
	e.release(e.begin("released", 2), false, lease.Released)
	e.advance(20 * minute)
	e.purge(1)
	e.wantRecord("released", lease.Released, 2, 2)
	e.wantRecord("run out", lease.Unknown, 0, 0)
}

func leasePurgeBatches(e *leaseEnv) {
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		e.mark(e.begin(key, 1), lease.Processed)
	}
	e.advance(LeaseRetention + minute)
	for _, batch := range []struct{ limit, want int }{{0, 0}, {2, 2}, {2, 2}, {2, 1}, {2, 0}} {
		var n int
		e.must(e.repeat(func() (err error) {
			n, err = e.s.PurgeLeases(e.ctx, LeaseRetention, batch.limit)
			return err
		}), "PurgeLeases")
		if n != batch.want {
			e.Fatalf("PurgeLeases(limit %d) = %d, want %d", batch.limit, n, batch.want)
		}
	}
}

func leaseRenewed(e *leaseEnv) {
	l := e.begin("k", 1)
	for range 3 {
		e.advance(leaseTTL / 2)
		if a := e.renew(l, lease.Acquired); a.Attempts != 1 || a.Remaining > leaseTTL || a.Remaining < leaseTTL/4 {
			e.Fatalf("RenewLease() = %+v, want 1 attempt and about %v", a, leaseTTL)
		}
	}
	e.wantBegin(request("k"), lease.Busy, 1)
	shorter, err := e.s.RenewLease(e.ctx, l, leaseTTL/2)
	if e.must(err, "RenewLease"); shorter.Remaining > leaseTTL/2 {
		e.Errorf("RenewLease() = %+v, want a lease made shorter", shorter)
	}
	e.advance(leaseTTL/2 + time.Second)
	e.begin("k", 2)
}

// leaseInvalid: refused requests store nothing.
func leaseInvalid(e *leaseEnv) {
	long := strings.Repeat("x", lease.MaxKeyLen+1)
	for name, change := range map[string]func(r *lease.Request){
		"no key":                func(r *lease.Request) { r.Key = "" },
		"long key":              func(r *lease.Request) { r.Key = long },
		"key with a NUL":        func(r *lease.Request) { r.Key = "k\x00" },
		"key not UTF-8":         func(r *lease.Request) { r.Key = "k\xff" },
		"long owner":            func(r *lease.Request) { r.Owner = long[:lease.MaxOwnerLen+1] },
		"owner with a NUL":      func(r *lease.Request) { r.Owner = "\x00" },
		"no TTL":                func(r *lease.Request) { r.TTL = 0 },
		"negative TTL":          func(r *lease.Request) { r.TTL = -time.Second },
		"long TTL":              func(r *lease.Request) { r.TTL = lease.MaxTTL + 1 },
		"negative attempts":     func(r *lease.Request) { r.MaxAttempts = -1 },
		"short request id":      func(r *lease.Request) { r.RequestID = long[:lease.MinRequestIDLen-1] },
		"long request id":       func(r *lease.Request) { r.RequestID = long[:lease.MaxRequestIDLen+1] },
		"request id, blank":     func(r *lease.Request) { r.RequestID = strings.Repeat("x", 16) + " " },
		"request id, not ASCII": func(r *lease.Request) { r.RequestID = strings.Repeat("é", 16) },
		"long hash":             func(r *lease.Request) { r.PayloadHash = long[:lease.MaxPayloadHash+1] },
		"hash, blank":           func(r *lease.Request) { r.PayloadHash = "x y" },
		"hash, not ASCII":       func(r *lease.Request) { r.PayloadHash = "é" },
		"less than the tick":    func(r *lease.Request) { r.TTL = lease.MinTTL - 1 },
	} {
		req := request("k")
		change(&req)
		_, err := e.s.TryBegin(e.ctx, req)
		e.wantInvalid(err, "TryBegin, "+name)
		_, err = e.s.TryBeginAll(e.ctx, []lease.Request{request("other"), req})
		e.wantInvalid(err, "TryBeginAll, "+name)
	}
	for _, key := range []string{"", long, "k\x00", "k\xff"} {
		l := lease.Lease{Key: key, ID: lease.NewID()}
		_, err := e.s.MarkProcessed(e.ctx, l)
		e.wantInvalid(err, "MarkProcessed")
		_, err = e.s.MarkAllProcessed(e.ctx, []lease.Lease{l})
		e.wantInvalid(err, "MarkAllProcessed")
		_, err = e.s.ReleaseLease(e.ctx, l, lease.Release{})
		e.wantInvalid(err, "ReleaseLease")
		_, err = e.s.RenewLease(e.ctx, l, leaseTTL)
		e.wantInvalid(err, "RenewLease")
		_, err = e.s.ReadLease(e.ctx, key)
		e.wantInvalid(err, "ReadLease")
	}
	held := e.begin("held", 1)
	for _, ttl := range []time.Duration{0, -time.Second, lease.MaxTTL + 1} {
		_, err := e.s.RenewLease(e.ctx, held, ttl)
		e.wantInvalid(err, "RenewLease, TTL")
	}
	e.wantRecord("k", lease.Unknown, 0, 0)
	e.wantRecord("other", lease.Unknown, 0, 0)
}

func leaseLimits(e *leaseEnv) {
	req := request("long")
	req.TTL = lease.MaxTTL
	if a := e.wantBegin(req, lease.Acquired, 1); a.Remaining < req.TTL-time.Hour || a.Remaining > req.TTL {
		e.Errorf("TryBegin() = %+v, want a lease of %v", a, req.TTL)
	}
	e.advance(req.TTL - time.Hour)
	e.wantBegin(request("long"), lease.Busy, 1)
	req = request("short")
	req.TTL = lease.MinTTL
	a := e.try(req)
	if a.Status != lease.Acquired || a.Remaining > req.TTL {
		e.Errorf("TryBegin() = %+v, want a lease of %v", a, req.TTL)
	}
	e.advance(time.Second)
	e.begin("short", 2)
}

func leaseCancelled(e *leaseEnv) {
	l := e.begin("held", 1)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	_, begin := e.s.TryBegin(ctx, request("k"))
	_, all := e.s.TryBeginAll(ctx, []lease.Request{request("k")})
	_, renew := e.s.RenewLease(ctx, l, leaseTTL)
	_, mark := e.s.MarkProcessed(ctx, l)
	_, marks := e.s.MarkAllProcessed(ctx, []lease.Lease{l})
	_, release := e.s.ReleaseLease(ctx, l, lease.Release{})
	_, read := e.s.ReadLease(ctx, "held")
	_, purge := e.s.PurgeLeases(ctx, LeaseRetention, 10)
	for i, err := range []error{begin, all, renew, mark, marks, release, read, purge} {
		if err == nil && !(i == 7 && e.h.Features.Expires) {
			e.Errorf("call %d with a context that has ended: no error", i)
		}
	}
	e.wantRecord("k", lease.Unknown, 0, 0)
	e.wantRecord("held", lease.Busy, 1, 1)
}

func leasePersists(e *leaseEnv) {
	held, processed := e.begin("held", 1), e.begin("processed", 1)
	e.mark(processed, lease.Processed)
	e.release(e.begin("released", 1), false, lease.Released)
	before := []lease.Record{e.read("held"), e.read("processed"), e.read("released")}

	e.s = e.h.Reopen(e.T, e.s)
	for i, key := range []string{"held", "processed", "released"} {
		if after := e.read(key); after != before[i] {
			e.Errorf("record of %q = %+v, want it as it was, %+v", key, after, before[i])
		}
	}
	e.wantBegin(request("held"), lease.Busy, 1)
	e.wantBegin(request("processed"), lease.Processed, 1)
	e.begin("released", 2)
	e.mark(held, lease.Processed)
}
