package e2e

import (
	"context"
	"errors"
	"math/rand/v2"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/relay/record"
	"github.com/waybill-go/waybill/store/pgstore"
)

// leaseTimes holds the settings that decide how soon a relay's lanes are taken over; zeros stand
// for the relay's defaults.
type leaseTimes struct{ LeaseTTL, RenewInterval, PublishTimeout time.Duration }

// replica runs a relay until SIGTERM. Unlike the role relay it stands still nowhere, and it
// starts while its broker is away.
func (c child) replica(ctx context.Context, store *pgstore.Store[pgx.Tx]) error {
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer cancel()
	b, err := c.Broker.openPatiently(ctx)
	if err != nil {
		return err
	}
	pub := b.Publisher()
	if c.Refuse {
		pub = refusingPublisher{pub}
	}
	cfg := c.relayConfig()
	if c.Record != "" {
		rec, err := record.Open(filepath.Join(c.Record, c.Node), record.Config{})
		if err != nil {
			return err
		}
		defer rec.Close()
		cfg.Recorder = rec
	}
	r, err := relay.New(store, pub, cfg)
	if err != nil {
		return err
	}
	return r.Run(ctx)
}

// openPatiently opens the broker as soon as it is there.
func (s brokerSettings) openPatiently(ctx context.Context) (broker, error) {
	b, err := s.open(ctx)
	for err != nil && ctx.Err() == nil {
		<-time.After(100 * time.Millisecond)
		b, err = s.open(ctx)
	}
	return b, err
}

func (c child) relayConfig() relay.Config {
	cfg := relay.Config{
		Node:           c.Node,
		PollInterval:   100 * time.Millisecond,
		LeaseTTL:       c.Lease.LeaseTTL,
		RenewInterval:  c.Lease.RenewInterval,
		PublishTimeout: c.Lease.PublishTimeout,
		Retry:          waybill.RetryPolicy{MaxRetries: 1000, BaseDelay: 20 * time.Millisecond, MaxDelay: 100 * time.Millisecond},
		Observer:       announcer{},
	}
	if c.Strict {
		cfg.Mode = relay.Strict
	}
	return cfg
}

// refusingPublisher refuses one message in twenty for the moment, as a broker does whose
// queue is full; the same message may pass the next time.
type refusingPublisher struct{ contract.Publisher }

func (p refusingPublisher) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	errs := make([]error, len(msgs))
	var passed []contract.Outgoing
	var places []int
	for i, m := range msgs {
		if rand.IntN(20) == 0 {
			errs[i] = errors.New("refused for the moment")
			continue
		}
		passed, places = append(passed, m), append(places, i)
	}
	if len(passed) == 0 {
		return func() []error { return errs }
	}
	wait := p.Publisher.Send(ctx, passed)
	return func() []error {
		for i, err := range wait() {
			errs[places[i]] = err
		}
		return errs
	}
}

// replica is a place for a relay process, with a way to the broker of its own.
type replica struct {
	settings child
	proxy    *faultproxy.Proxy
	process  *process // nil while there is none
	stopped  int      // for how many more interruptions it stays stopped
}

func (r *replica) running() bool { return r.process != nil && r.stopped == 0 }

// start starts a process under a new node name.
func (r *replica) start(t *testing.T, w *world, node string) {
	t.Helper()
	r.settings.Node = node
	r.process = w.startChild(t, r.settings)
}

func (r *replica) kill() {
	if r.process == nil {
		return
	}
	r.process.kill()
	r.process, r.stopped = nil, 0
}

// owners returns how many lanes each relay has, by the database's word; "" is nobody.
func (w *world) owners(t *testing.T) map[string]int {
	t.Helper()
	rows, err := w.pool.Query(context.Background(), "SELECT coalesce(owner, ''), count(*) FROM "+w.table("relay_lanes")+" GROUP BY 1")
	if err != nil {
		t.Fatalf("owners of lanes: %v", err)
	}
	owned, node, n := map[string]int{}, "", 0
	_, err = pgx.ForEachRow(rows, []any{&node, &n}, func() error {
		owned[node] = n
		return nil
	})
	if err != nil {
		t.Fatalf("owners of lanes: %v", err)
	}
	return owned
}
