package e2e

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/relay/record"
)

// relayOptions has a story for each field of [relay.Config] that shows its effect.
var relayOptions = map[string]func(*testing.T){
	"Node":                optionNode,
	"PollInterval":        optionPollInterval,
	"BatchSize":           optionBatchSize,
	"Parallelism":         optionParallelism,
	"Mode":                optionMode,
	"Retry.MaxRetries":    optionMaxRetries,
	"Retry.BaseDelay":     optionDelays,
	"Retry.MaxDelay":      optionDelays,
	"Retry.DisableJitter": optionDisableJitter,
	"LeaseTTL":            optionLeaseTTL,
	"RenewInterval":       optionRenewInterval,
	"PublishTimeout":      optionPublishTimeout,
	"ShutdownGrace":       optionShutdownGrace,
	"Retention":           optionRetention,
	"DisableDeadLetters":  optionDisableDeadLetters,
	"CleanupInterval":     optionCleanup,
	"CleanupBatchSize":    optionCleanup,
	"DisableCleanup":      optionCleanup,
	"Order":               optionOrder,
	"TopicOrder":          optionOrder,
	"MaxParkedMessages":   optionMaxParked,
	"MaxParkedKeys":       optionMaxParked,
	"Followers":           optionFollowers,
	"Observer":            optionObserver,
	"Recorder":            optionRecorder,
}

// TestRelayOptions (AS-20) shows the effect of each option of a relay. A new one without a story
// fails it: options without effect are worse than none.
func TestRelayOptions(t *testing.T) {
	t.Parallel()
	names := optionNames(reflect.TypeFor[relay.Config](), "")
	for _, name := range names {
		if relayOptions[name] == nil {
			t.Errorf("relay.Config.%s has no story that shows its effect", name)
		}
	}
	for name, story := range relayOptions {
		if !slices.Contains(names, name) {
			t.Errorf("relay.Config has no field %s, of which a story tells", name)
		}
		t.Run(name, story)
	}
}

// optionNames returns the exported fields of a struct, with those of a retry policy one by one.
func optionNames(of reflect.Type, prefix string) []string {
	var names []string
	for _, f := range reflect.VisibleFields(of) {
		switch {
		case !f.IsExported():
		case f.Type == reflect.TypeFor[waybill.RetryPolicy]():
			names = append(names, optionNames(f.Type, f.Name+".")...)
		default:
			names = append(names, prefix+f.Name)
		}
	}
	return names
}

func optionNode(t *testing.T) {
	t.Parallel()
	w := plainWorld(t)
	w.startRelay(t, &recorder{}, relay.Config{Node: "relay-of-room-7"})
	eventually(t, "lanes are owned under the name", func() bool { return w.owners(t)["relay-of-room-7"] == 64 })
}

func optionMode(t *testing.T) {
	t.Parallel()
	for mode, want := range map[relay.Mode]int64{relay.Strict: 1, relay.Pipelined: 20} {
		w := plainWorld(t)
		var most atomic.Int64
		pub := &recorder{before: func(_ context.Context, msgs []contract.Outgoing) { most.Store(max(most.Load(), int64(len(msgs)))) }}
		msgs := numbered("m", "orders", 20)
		for i := range msgs {
			msgs[i].Key = "k"
		}
		w.enqueue(t, msgs...)
		w.startRelay(t, pub, relay.Config{Mode: mode, Parallelism: 1})
		eventually(t, "all are published", func() bool { return len(pub.ids()) == 20 })
		if most.Load() != want {
			t.Errorf("mode %d: up to %d messages of a key were sent at a time, want %d", mode, most.Load(), want)
		}
	}
}

func optionMaxRetries(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{waybill.NoRetries, 1, 3} {
		w := plainWorld(t)
		pub := &recorder{fail: func(contract.Outgoing) error { return errors.New("not now") }}
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		w.startRelay(t, pub, relay.Config{Retry: waybill.RetryPolicy{MaxRetries: retries, BaseDelay: time.Millisecond}})
		w.waitStatus(t, "m", inspect.Dead)
		if got, want := w.state(t, "m").Attempts, 1+max(retries, 0); got != want {
			t.Errorf("MaxRetries %d: %d attempts, want %d", retries, got, want)
		}
	}
}

// retryDelays lets each of some messages fail until it is dead and returns the delays that
// the relay chose.
func retryDelays(t *testing.T, messages int, policy waybill.RetryPolicy) []time.Duration {
	t.Helper()
	w, delays := plainWorld(t), &delayRecorder{}
	w.enqueue(t, numbered("m", "orders", messages)...)
	pub := &recorder{fail: func(contract.Outgoing) error { return errors.New("not now") }}
	w.startRelay(t, pub, relay.Config{Retry: policy, Observer: delays})
	eventually(t, "all are dead", func() bool {
		return w.number(t, "SELECT count(*) FROM "+w.table("dead_letters")) == messages
	})
	delays.mu.Lock()
	defer delays.mu.Unlock()
	return slices.Clone(delays.seen)
}

// delayRecorder is an observer that notes the delay of each retry.
type delayRecorder struct {
	mu   sync.Mutex
	seen []time.Duration
}

func (d *delayRecorder) Start(ctx context.Context, _ observe.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (d *delayRecorder) Observe(_ context.Context, e observe.Event) {
	if e.Op == observe.OpRetry {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.seen = append(d.seen, e.Delay)
	}
}

func optionDelays(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		base, most time.Duration
		want       []time.Duration
	}{
		{base: 10 * ms, most: 100 * ms, want: []time.Duration{10 * ms, 20 * ms, 40 * ms, 80 * ms}},
		{base: 20 * ms, most: 100 * ms, want: []time.Duration{20 * ms, 40 * ms, 80 * ms, 100 * ms}},
		{base: 20 * ms, most: 30 * ms, want: []time.Duration{20 * ms, 30 * ms, 30 * ms, 30 * ms}},
	} {
		got := retryDelays(t, 1, waybill.RetryPolicy{MaxRetries: 4, BaseDelay: c.base, MaxDelay: c.most, DisableJitter: true})
		if !slices.Equal(got, c.want) {
			t.Errorf("BaseDelay %v, MaxDelay %v: delays %v, want %v", c.base, c.most, got, c.want)
		}
	}
}

func optionDisableJitter(t *testing.T) {
	t.Parallel()
	const base = 20 * time.Millisecond
	for _, disable := range []bool{true, false} {
		delays := retryDelays(t, 20, waybill.RetryPolicy{MaxRetries: 1, BaseDelay: base, DisableJitter: disable})
		slices.Sort(delays)
		least, most := delays[0], delays[len(delays)-1]
		if spread := least != most; spread == disable {
			t.Errorf("DisableJitter %v: delays from %v to %v", disable, least, most)
		}
		if least < base*8/10 || most > base*12/10 {
			t.Errorf("DisableJitter %v: delays from %v to %v, want within a fifth of %v", disable, least, most, base)
		}
	}
}

func optionLeaseTTL(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{10 * time.Second, time.Hour} {
		w := plainWorld(t)
		r, _ := w.startRelay(t, &recorder{}, relay.Config{LeaseTTL: ttl, RenewInterval: time.Second, PublishTimeout: time.Second})
		eventually(t, "the relay has its lanes", func() bool { return r.Status().Lanes == 64 })
		left := w.number(t, "SELECT extract(epoch FROM max(expires_at) - clock_timestamp())::int FROM "+w.table("relays"))
		if limit := int(ttl.Seconds()); left > limit || left < limit-9 {
			t.Errorf("LeaseTTL %v: the lease holds for %d s, want %d or little less", ttl, left, limit)
		}
	}
}

func optionRenewInterval(t *testing.T) {
	t.Parallel()
	often, seldom := plainWorld(t), plainWorld(t)
	expiries := func(w *world) func() int {
		seen := map[string]bool{}
		return func() int {
			var at string
			if err := w.pool.QueryRow(context.Background(), "SELECT coalesce(max(expires_at)::text, '') FROM "+w.table("relays")).Scan(&at); err != nil {
				t.Fatal(err)
			}
			if at != "" {
				seen[at] = true
			}
			return len(seen)
		}
	}
	seldom.startRelay(t, &recorder{}, relay.Config{LeaseTTL: time.Hour, RenewInterval: time.Minute, PublishTimeout: time.Second})
	seldomSeen := expiries(seldom)
	eventually(t, "the first lease is there", func() bool { return seldomSeen() == 1 })
	often.startRelay(t, &recorder{}, relay.Config{LeaseTTL: time.Hour, RenewInterval: 20 * time.Millisecond, PublishTimeout: time.Second})
	oftenSeen := expiries(often)
	eventually(t, "the lease is renewed ten times", func() bool { return seldomSeen() > 1 || oftenSeen() > 10 })
	if n := seldomSeen(); n != 1 {
		t.Errorf("RenewInterval 1 min: the lease has been renewed %d times within the time of ten renewals each 20 ms", n-1)
	}
}

func optionPublishTimeout(t *testing.T) {
	t.Parallel()
	for _, timeout := range []time.Duration{5 * time.Second, time.Hour} {
		w := plainWorld(t)
		deadlines := make(chan time.Duration, 100)
		pub := &recorder{before: func(ctx context.Context, _ []contract.Outgoing) {
			deadline, _ := ctx.Deadline()
			deadlines <- time.Until(deadline)
		}}
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		w.startRelay(t, pub, relay.Config{LeaseTTL: 2 * time.Hour, RenewInterval: time.Second, PublishTimeout: timeout})
		if left := <-deadlines; left > timeout || left < timeout-4*time.Second {
			t.Errorf("PublishTimeout %v: the broker has %v", timeout, left)
		}
	}
}

// optionShutdownGrace stops a relay while the broker does not answer: within a long grace the
// answer still counts, a short one ends the wait for it.
func optionShutdownGrace(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{time.Millisecond, time.Hour} {
		w := plainWorld(t)
		reached, answer := make(chan struct{}), make(chan struct{})
		pub := &recorder{before: func(ctx context.Context, _ []contract.Outgoing) {
			close(reached)
			select {
			case <-answer:
			case <-ctx.Done():
			}
		}, fail: func(contract.Outgoing) error {
			select {
			case <-answer:
				return nil
			default:
				return waybill.UnavailableError(context.Canceled)
			}
		}}
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		r, stop := w.startRelay(t, pub, relay.Config{ShutdownGrace: grace, LeaseTTL: 2 * time.Hour, RenewInterval: time.Second, PublishTimeout: time.Hour})
		<-reached
		want := inspect.Pending
		if grace == time.Hour {
			want = inspect.Published
			stopped := make(chan struct{})
			go func() { stop(); close(stopped) }()
			close(answer)
			<-stopped
		} else {
			stop()
		}
		if s := w.statuses(t, "m"); !slices.Equal(s, []inspect.Status{want}) || r.Status().Running {
			t.Errorf("ShutdownGrace %v: the message is %v after Run, want %v", grace, s, want)
		}
	}
}

// archiveSource notes how it is asked to maintain the archive.
type archiveSource struct {
	contract.Source
	maintained chan contract.MaintainRequest
}

func (s archiveSource) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	select {
	case s.maintained <- req:
	default:
	}
	return s.Source.MaintainArchive(ctx, req)
}

// optionCleanup: what the requests do to the archive is shown by TestArchive of the stores.
func optionCleanup(t *testing.T) {
	t.Parallel()
	for _, disable := range []bool{false, true} {
		w := plainWorld(t)
		src := archiveSource{w.store, make(chan contract.MaintainRequest, 10)}
		cfg := relay.Config{Retention: time.Hour, CleanupInterval: time.Second, CleanupBatchSize: 7, DisableCleanup: disable}
		r, err := relay.New(src, &recorder{}, quick(cfg))
		if err != nil {
			t.Fatal(err)
		}
		run(t, t.Context(), r.Run)
		want := contract.MaintainRequest{Retention: time.Hour, BatchSize: 7}
		if disable {
			want.Retention = 0
		}
		for range 2 { // the second after the interval
			if got := <-src.maintained; got != want {
				t.Errorf("DisableCleanup %v: maintained by %+v, want %+v", disable, got, want)
			}
		}
	}
}

func optionRetention(t *testing.T) {
	t.Parallel()
	for retention, kept := range map[time.Duration]int{48 * time.Hour: 1, relay.KeepNothing: 0} {
		w := plainWorld(t)
		src := archiveSource{w.store, make(chan contract.MaintainRequest, 10)}
		r, err := relay.New(src, &recorder{}, quick(relay.Config{Retention: retention}))
		if err != nil {
			t.Fatal(err)
		}
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		run(t, t.Context(), r.Run)
		eventually(t, "the message has left the outbox", func() bool {
			return r.Status().Published == 1 && w.number(t, "SELECT count(*) FROM "+w.table("outbox")+" WHERE id = 'm'") == 0
		})
		if n := w.number(t, "SELECT count(*) FROM "+w.table("outbox_archive")); n != kept {
			t.Errorf("Retention %v: %d messages kept, want %d", retention, n, kept)
		}
		if got := <-src.maintained; kept == 1 && got.Retention != retention {
			t.Errorf("Retention %v: the archive is kept for %v", retention, got.Retention)
		}
	}
}

func optionDisableDeadLetters(t *testing.T) {
	t.Parallel()
	for disable, want := range map[bool]inspect.Status{false: inspect.Dead, true: inspect.Failed} {
		w := plainWorld(t)
		pub := &recorder{fail: func(contract.Outgoing) error {
			return waybill.PermanentError(waybill.ReasonRejected, errors.New("never"))
		}}
		w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
		w.startRelay(t, pub, relay.Config{DisableDeadLetters: disable})
		w.waitStatus(t, "m", want)
	}
}

func optionFollowers(t *testing.T) {
	t.Parallel()
	w, pub, after := plainWorld(t), &recorder{}, &recorder{}
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	w.startRelay(t, pub, relay.Config{Followers: []relay.Destination{{Name: "after", Publisher: after}}})
	eventually(t, "the follower has the message, too", func() bool { return pub.count("m") == 1 && after.count("m") == 1 })
}

func optionObserver(t *testing.T) {
	t.Parallel()
	w, ops := plainWorld(t), newOpCounter()
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	w.startRelay(t, &recorder{}, relay.Config{Observer: ops})
	for _, op := range []observe.Op{observe.OpLanes, observe.OpClaim, observe.OpPublish, observe.OpSettle} {
		eventually(t, "the observer receives "+string(op), func() bool { return ops.count(op) >= 1 })
	}
}

func optionRecorder(t *testing.T) {
	t.Parallel()
	w, file := plainWorld(t), filepath.Join(t.TempDir(), "relay.rec")
	rec, err := record.Open(file, record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	w.enqueue(t, waybill.Message{ID: "m", Topic: "orders"})
	ops := newOpCounter()
	_, stop := w.startRelay(t, &recorder{}, relay.Config{Recorder: rec, Observer: ops})
	eventually(t, "the message is settled", func() bool { return ops.count(observe.OpSettle) >= 1 })
	stop()
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	if accepted, _, err := replay(t, file); err != nil || accepted != 1 {
		t.Errorf("%d messages were accepted by the recording, %v, want one", accepted, err)
	}
}
