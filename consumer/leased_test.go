package consumer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/observe"
)

// leaseStub is a lease store for one key that fails when told to. Its clock is the bubble's. The
// key of a conflict has a stub of its own.
type leaseStub struct {
	lease.Store
	mu        sync.Mutex
	key       string        // the first that was asked for
	conflict  *leaseStub    // for any other
	away      bool          // answers nothing
	renewAway bool          // does not answer renewals
	slow      time.Duration // of an answer to TryBegin
	lose      int           // the number of lost answers to TryBegin
	id        string        // of the lease
	rec       lease.Record
	marks     int
	tries     int
}

var errAway = waybill.UnavailableError(errors.New("store is away"))

// of returns the stub for a key.
func (s *leaseStub) of(key string) *leaseStub {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == "" {
		s.key = key
	}
	if key == s.key {
		return s
	}
	if s.conflict == nil {
		s.conflict = &leaseStub{key: key}
	}
	return s.conflict
}

func (s *leaseStub) TryBegin(_ context.Context, req lease.Request) (lease.Answer, error) {
	s = s.of(req.Key)
	defer func() { <-time.After(s.slow) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tries++
	switch left := time.Until(s.rec.LeaseUntil); {
	case s.away:
		return lease.Answer{}, errAway
	case s.rec.Status == lease.Processed:
		return lease.Answer{Status: lease.Processed, Conflict: req.Conflicts(s.rec.PayloadHash)}, nil
	case left > 0 && s.id == req.RequestID:
		return lease.Answer{Status: lease.Acquired, LeaseID: s.id, Token: s.rec.Token, Attempts: s.rec.Attempts, Remaining: left}, nil
	case left > 0:
		return lease.Answer{Status: lease.Busy, Remaining: left}, nil
	case time.Until(s.rec.DueAt) > 0:
		return lease.Answer{Status: lease.Busy, Remaining: time.Until(s.rec.DueAt)}, nil
	}
	s.rec = lease.Record{Status: lease.Busy, Token: s.rec.Token + 1, Attempts: s.rec.Attempts + 1, LeaseUntil: time.Now().Add(req.TTL), PayloadHash: req.PayloadHash}
	if s.id = req.RequestID; s.lose > 0 {
		s.lose--
		return lease.Answer{}, errAway
	}
	return lease.Answer{Status: lease.Acquired, Token: s.rec.Token, Attempts: s.rec.Attempts, Remaining: req.TTL}, nil
}

// change does what a holder asks for, if it is still the one.
func (s *leaseStub) change(l lease.Lease, away bool, status lease.Status, do func(s *leaseStub)) (lease.Status, error) {
	s = s.of(l.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case away || s.away:
		return "", errAway
	case l.Token != s.rec.Token:
		return lease.Lost, nil
	}
	do(s)
	return status, nil
}

func (s *leaseStub) RenewLease(_ context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	status, err := s.change(l, s.renewAway, lease.Acquired, func(s *leaseStub) { s.rec.LeaseUntil = time.Now().Add(ttl) })
	return lease.Answer{Status: status, Remaining: ttl}, err
}

func (s *leaseStub) MarkProcessed(_ context.Context, l lease.Lease) (lease.Status, error) {
	return s.change(l, false, lease.Processed, func(s *leaseStub) { s.marks++; s.rec.Status = lease.Processed })
}

func (s *leaseStub) ReleaseLease(_ context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	return s.change(l, false, lease.Released, func(s *leaseStub) {
		s.rec.Status, s.rec.LeaseUntil = lease.Released, time.Time{}
		if r.Wait > 0 {
			s.rec.DueAt = time.Now().Add(r.Wait)
		}
		if r.Uncounted {
			s.rec.Attempts--
		}
	})
}

func (s *leaseStub) ReadLease(context.Context, string) (lease.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return lease.Record{}, errAway
	}
	rec := s.rec
	if rec.Status == lease.Busy && time.Now().After(rec.LeaseUntil) {
		rec.Status = lease.Expired
	}
	return rec, nil
}

// steal has somebody else take the key over.
func (s *leaseStub) steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rec.Token++
	s.rec.LeaseUntil = time.Now().Add(time.Minute)
}

// noted is an observer that keeps what it receives.
type noted struct {
	mu     sync.Mutex
	events []observe.Event
}

func (n *noted) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (n *noted) Observe(_ context.Context, e observe.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

func (n *noted) count(op observe.Op) (count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Op == op {
			count++
		}
	}
	return count
}

type noSubscriber struct{ contract.Subscriber }

// trial is a leased consumer whose deliveries the test makes.
type trial struct {
	*Leased
	store   *leaseStub
	letters []inbox.Letter
	noted   noted
}

const testTTL = 30 * time.Second

func newTrial(t *testing.T, h LeasedHandler, change func(*Leases, *Config)) *trial {
	t.Helper()
	tr := &trial{store: &leaseStub{}}
	leases := Leases{Bus: "mem", TTL: testTTL, Letters: LettersTo(func(_ context.Context, l inbox.Letter) error {
		tr.letters = append(tr.letters, l)
		return nil
	})}
	cfg := Config{HandlerTimeout: time.Hour, Observer: &tr.noted}
	if change != nil {
		change(&leases, &cfg)
	}
	c, err := NewLeased(gives{noSubscriber{}}, billing, tr.store, h, leases, cfg)
	if err != nil {
		t.Fatal(err)
	}
	tr.Leased = c
	return tr
}

// deliver runs one attempt as Run does, and checks that the places of handlers are given back.
func (tr *trial) deliver(t *testing.T, redelivered bool) verdict {
	t.Helper()
	return tr.deliverPayload(t, "", redelivered)
}

func (tr *trial) deliverPayload(t *testing.T, payload string, redelivered bool) verdict {
	t.Helper()
	m := &waybill.Message{ID: "m", Topic: "orders", Type: "orders", Source: "shop", Payload: []byte(payload)}
	tr.acquire(t.Context())
	v := tr.tryMessage(t.Context(), t.Context(), inbox.RecordOf(tr.name, m), m, redelivered)
	tr.releaseHandler()
	if n := len(tr.handlers); n != 0 {
		t.Errorf("%d places of handlers are still taken", n)
	}
	return v
}

func TestLeased_Renews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(ctx context.Context, m *waybill.Message) error {
			if l, ok := lease.FromContext(ctx); !ok || l.Token != 1 || l.Key != "mem:billing:orders:m" {
				t.Errorf("the handler runs under %+v, want the first lease of its message", l)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Minute):
			}
			return ctx.Err()
		}, nil)
		if v := tr.deliver(t, false); v != done || tr.store.marks != 1 {
			t.Errorf("after five minutes: %+v and %d marks, want it done and marked", v, tr.store.marks)
		}
		if v := tr.deliver(t, true); v != done || tr.noted.count(observe.OpDuplicate) != 1 {
			t.Errorf("again: %+v, want it skipped as a duplicate", v)
		}
	})
}

// TestLeased_HandlerEndsFirst has renewals fail. The handler's context ends a sixth of the
// lease before the lease, counted from before the store was asked, however long that took.
func TestLeased_HandlerEndsFirst(t *testing.T) {
	t.Parallel()
	for name, slow := range map[string]time.Duration{"quick store": 0, "slow store": 9 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, cause := time.Now(), error(nil)
				tr := newTrial(t, func(ctx context.Context, m *waybill.Message) error {
					<-ctx.Done()
					cause = context.Cause(ctx)
					return errors.New("gave up")
				}, nil)
				tr.store.slow, tr.store.renewAway = slow, true
				v := tr.deliver(t, false)
				if ended := time.Since(began); ended != testTTL-testTTL/6 {
					t.Errorf("the handler's context ended after %v, want a sixth of %v before its end", ended, testTTL)
				}
				if !v.uncounted || tr.store.rec.Attempts != 0 || !errors.Is(cause, errLeaseEnds) {
					t.Errorf("%+v with %d attempts and cause %v, want it again, uncounted", v, tr.store.rec.Attempts, cause)
				}
			})
		})
	}
}

// TestLeased_LateAnswer: of a lease that has nearly ended when it is answered the handler does
// not hear.
func TestLeased_LateAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error {
			t.Error("the handler runs")
			return nil
		}, nil)
		tr.store.slow = testTTL
		if v := tr.deliver(t, false); !v.again || !v.uncounted || tr.store.rec.Attempts != 0 {
			t.Errorf("%+v with %d attempts, want it again, uncounted", v, tr.store.rec.Attempts)
		}
	})
}

// TestLeased_AnswerLost: a message whose key was leased without an answer does not wait for the
// end of that lease, and the attempt counts once.
func TestLeased_AnswerLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(ctx context.Context, m *waybill.Message) error { return nil }, nil)
		tr.store.lose = 1
		if v := tr.deliver(t, false); v != done || tr.store.marks != 1 || tr.store.tries != 2 || tr.store.rec.Attempts != 1 {
			t.Errorf("%+v, %d marks after %d tries, %d attempts; want it done at the second try, in one attempt",
				v, tr.store.marks, tr.store.tries, tr.store.rec.Attempts)
		}
	})
}

func TestLeased_Lost(t *testing.T) {
	t.Parallel()
	for name, heeds := range map[string]bool{"the handler heeds its context": true, "the handler goes on": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var tr *trial
				began := time.Now()
				tr = newTrial(t, func(ctx context.Context, m *waybill.Message) error {
					tr.store.steal()
					if !heeds {
						return nil
					}
					<-ctx.Done()
					if waited := time.Since(began); waited != testTTL/3 {
						t.Errorf("told after %v, want at the next renewal", waited)
					}
					return ctx.Err()
				}, nil)
				v := tr.deliver(t, false)
				if !v.again || !v.uncounted || tr.store.marks != 0 || tr.noted.count(observe.OpLeaseLost) != 1 {
					t.Errorf("%+v, %d marks, %d reports; want it again, uncounted, no mark, one report", v, tr.store.marks, tr.noted.count(observe.OpLeaseLost))
				}
			})
		})
	}
}

// TestLeased_MarkIsRepeated: a store that is away when the handler has succeeded costs no
// second call of the handler.
func TestLeased_MarkIsRepeated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tr *trial
		calls := 0
		tr = newTrial(t, func(context.Context, *waybill.Message) error {
			calls++
			tr.store.away = true
			time.AfterFunc(time.Hour, func() {
				tr.store.mu.Lock()
				defer tr.store.mu.Unlock()
				tr.store.away = false
			})
			return nil
		}, nil)
		if v := tr.deliver(t, false); v != done || calls != 1 || tr.store.marks != 1 {
			t.Errorf("%+v, %d calls, %d marks; want it done after one call", v, calls, tr.store.marks)
		}
	})
}

func TestLeased_Busy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error { return nil }, nil)
		tr.store.rec = lease.Record{Status: lease.Busy, Token: 7, Attempts: 1, LeaseUntil: time.Now().Add(20 * time.Second)}
		v := tr.deliver(t, false)
		if !v.again || v.after < 20*time.Second || v.after > 22*time.Second || tr.store.rec.Attempts != 1 || tr.noted.count(observe.OpBusy) != 1 {
			t.Errorf("%+v with %d attempts, want it again when the lease has ended, uncounted", v, tr.store.rec.Attempts)
		}
		if w := busyWait(24 * time.Hour); w > maxBusyWait*11/10 {
			t.Errorf("waits %v for a lease of a day, want at most %v and a tenth", w, maxBusyWait)
		}
	})
}

// TestLeased_FailsAndIsBuried: attempts are counted by the store, and the letter comes before
// the mark.
func TestLeased_FailsAndIsBuried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error { return errors.New("broken") }, func(_ *Leases, cfg *Config) {
			cfg.Retry = waybill.RetryPolicy{MaxRetries: 2, BaseDelay: time.Minute, MaxDelay: time.Hour, DisableJitter: true}
		})
		for i, want := range []time.Duration{time.Minute, 2 * time.Minute} {
			if v := tr.deliver(t, i > 0); v != again(want) || len(tr.letters) != 0 {
				t.Errorf("attempt %d: %+v, want it again after %v", i+1, v, want)
			}
			<-time.After(want)
		}
		v := tr.deliver(t, true)
		if v != done || len(tr.letters) != 1 || tr.store.marks != 1 {
			t.Fatalf("%+v, %d letters, %d marks; want one letter, and the message marked", v, len(tr.letters), tr.store.marks)
		}
		if l := tr.letters[0]; l.Reason != waybill.ReasonExhausted || l.Attempts != 3 || l.Error != "broken" {
			t.Errorf("letter = %+v, want it exhausted after 3 attempts", l)
		}
	})
}

// TestLeased_LetterIsNotStored: the message is not marked, and comes again.
func TestLeased_LetterIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t, func(context.Context, *waybill.Message) error {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
		}, func(l *Leases, _ *Config) {
			l.Letters = LettersTo(func(context.Context, inbox.Letter) error { return errAway })
		})
		if v := tr.deliver(t, false); !v.again || !v.uncounted || tr.store.marks != 0 || tr.store.rec.Attempts != 0 {
			t.Errorf("%+v, %d marks, %d attempts; want it again, uncounted, not marked", v, tr.store.marks, tr.store.rec.Attempts)
		}
	})
}

// TestLeased_Poison finds leases that ran out, as a killed process leaves them.
func TestLeased_Poison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		tr := newTrial(t, func(context.Context, *waybill.Message) error { calls++; return errors.New("came back") },
			func(_ *Leases, cfg *Config) { cfg.Retry.MaxRetries = waybill.NoRetries })
		tr.store.rec = lease.Record{Status: lease.Busy, Token: 3, Attempts: poisonStarts, LeaseUntil: time.Now().Add(-time.Second)}
		if v := tr.deliver(t, true); v != done || calls != 0 || len(tr.letters) != 1 || tr.store.marks != 1 {
			t.Fatalf("%+v, %d calls, %d letters; want a letter and no call", v, calls, len(tr.letters))
		}
		if l := tr.letters[0]; l.Reason != waybill.ReasonPoison || l.Attempts != poisonStarts {
			t.Errorf("letter = %+v, want it poison after %d attempts", l, poisonStarts)
		}
		tr.store.rec = lease.Record{Status: lease.Busy, Token: 9, Attempts: poisonStarts - 1, LeaseUntil: time.Now().Add(-time.Second)}
		if tr.deliver(t, true); calls != 1 {
			t.Error("what may have been killed by chance is not tried once more")
		}
	})
}

func TestLeased_StoreAway(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]bool{"fail closed": false, "fail open": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				tr := newTrial(t, func(ctx context.Context, _ *waybill.Message) error {
					if _, ok := lease.FromContext(ctx); ok {
						t.Error("the handler runs under a lease that nobody gave")
					}
					calls++
					return nil
				}, func(l *Leases, _ *Config) { l.FailOpen = open })
				tr.store.away = true
				for _, redelivered := range []bool{false, true} {
					v := tr.deliver(t, redelivered)
					if closed := v.again && v.uncounted && v.after > 0; closed == open {
						t.Errorf("%+v, want it %s", v, name)
					}
				}
				want := 0
				if open {
					want = 2
				}
				if calls != want || tr.noted.count(observe.OpUnleased) != want {
					t.Errorf("%d calls and %d reports of them, want %d", calls, tr.noted.count(observe.OpUnleased), want)
				}
			})
		})
	}
}

func TestNewLeased_Refuses(t *testing.T) {
	t.Parallel()
	letters := LettersTo(func(context.Context, inbox.Letter) error { return nil })
	for field, tc := range map[string]struct {
		leases Leases
		cfg    Config
		want   []string // in the text
	}{
		"consumer.Leases.Bus":         {Leases{Letters: letters}, Config{}, []string{"required"}},
		"consumer.Leases.Bus too":     {Leases{Bus: strings.Repeat("b", 400), Letters: letters}, Config{}, []string{"400", "512"}},
		"consumer.Leases.Letters":     {Leases{Bus: "b"}, Config{}, []string{"LettersIn", "LettersTo"}},
		"consumer.Leases.Letters too": {Leases{Bus: "b", Letters: LettersTo(nil)}, Config{}, []string{"LettersIn"}},
		"consumer.Leases.TTL":         {Leases{Bus: "b", TTL: time.Millisecond, Letters: letters}, Config{}, []string{"1ms", "100ms"}},
		"consumer.Leases.TTL too":     {Leases{Bus: "b", TTL: time.Hour, Letters: letters}, Config{InboxRetention: time.Minute, AllowShortRetention: true}, []string{"1h0m0s", "1m0s"}},
		"consumer.Config.OnConflict":  {Leases{Bus: "b", Letters: letters}, Config{OnConflict: 9}, []string{"ConflictSkip"}},
		"consumer.Config.BatchSize":   {Leases{Bus: "b", Letters: letters}, Config{BatchSize: 7}, []string{"7"}},
		"consumer.Config.Concurrency": {Leases{Bus: "b", Letters: letters}, Config{Concurrency: -1}, []string{"-1", "10000"}},
	} {
		_, err := NewLeased(gives{noSubscriber{}}, billing, &leaseStub{}, func(context.Context, *waybill.Message) error { return nil }, tc.leases, tc.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != strings.TrimSuffix(field, " too") {
			t.Errorf("%s: %v, want an InvalidError of it", field, err)
			continue
		}
		for _, text := range tc.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, want it to say %q", field, err, text)
			}
		}
	}
}
