package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/redisstore"
)

const (
	inboxClients = 32 // concurrent clients
	inboxBatch   = 50
)

// inboxPlace is a store that leases are acquired from, directly and through the service.
type inboxPlace struct {
	name  string
	job   job // the service over it
	open  func() (lease.BatchStore, func(), error)
	least float64 // the share of its own rate that the service must reach
}

// runInboxHTTP compares the service with the stores below it.
func runInboxHTTP(ctx context.Context, b *bench) (rows []row, _ error) {
	err := b.inWorld(ctx, func(w *world) error {
		for _, p := range w.inboxPlaces() {
			more, err := w.inboxRates(ctx, p)
			rows = append(rows, more...)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	return rows, err
}

func (w *world) inboxPlaces() []inboxPlace {
	overRedis := job{Role: "inbox", Redis: w.redis, Prefix: w.name + ":"}
	overPostgres := job{Role: "inbox", Postgres: w.url, Connections: inboxClients}
	return []inboxPlace{
		{"Redis", overRedis, func() (lease.BatchStore, func(), error) { return openRedisLeases(overRedis) }, 25},
		{"PostgreSQL", overPostgres, func() (lease.BatchStore, func(), error) { return openPostgresLeases(overPostgres) }, 45},
	}
}

func openRedisLeases(j job) (lease.BatchStore, func(), error) {
	options, err := redis.ParseURL(j.Redis)
	if err != nil {
		return nil, nil, err
	}
	options.PoolSize = inboxClients
	client := redis.NewClient(options)
	store, err := redisstore.New(client, redisstore.Config{Prefix: j.Prefix, Retention: redisstore.MinRetention})
	return store, func() { _ = client.Close() }, err
}

func openPostgresLeases(j job) (lease.BatchStore, func(), error) {
	pool, err := openPool(context.Background(), j.Postgres, j.Connections, nil)
	if err != nil {
		return nil, nil, err
	}
	store, err := pgstore.New(pool, pgstore.Config{})
	return store, pool.Close, err
}

// inboxJob serves a store until the parent stops it.
func inboxJob(ctx context.Context, c *client) error {
	open := openPostgresLeases
	if c.Redis != "" {
		open = openRedisLeases
	}
	store, done, err := open(c.job)
	if err != nil {
		return err
	}
	defer done()
	handler, err := inboxhttp.NewServer(store, inboxhttp.Config{Observer: quiet})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	c.tell(report{Address: "http://" + listener.Addr().String()})
	run, err := c.start(ctx)
	if err != nil {
		return err
	}
	<-run.Done()
	if err := server.Shutdown(ctx); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// inboxRates measures one place, directly and through the service alternately.
func (w *world) inboxRates(ctx context.Context, p inboxPlace) ([]row, error) {
	store, done, err := p.open()
	if err != nil {
		return nil, err
	}
	defer done()
	service, err := spawn(ctx, p.job)
	if err != nil {
		return nil, err
	}
	defer service.kill()
	state, err := service.state()
	if err != nil {
		return nil, err
	}
	client, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: state.Address, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := service.begin(); err != nil {
		return nil, err
	}
	var bare, served, bareBatch, servedBatch inboxRate
	var half, bareHalf pacedTimes
	d := time.Duration(w.size(10, 1)) * time.Second
	for range w.repeats {
		for _, turn := range []struct {
			into  *inboxRate
			store lease.BatchStore
			batch int
		}{{&bare, store, 1}, {&served, client, 1}, {&bareBatch, store, inboxBatch}, {&servedBatch, client, inboxBatch}} {
			if err := turn.into.measure(ctx, turn.store, turn.batch, d); err != nil {
				return nil, err
			}
		}
		rate := served.keys[len(served.keys)-1] / 2
		if err := half.measure(ctx, client, rate, d); err != nil {
			return nil, err
		}
		if err := bareHalf.measure(ctx, store, rate, d); err != nil {
			return nil, err
		}
	}
	halfTable := p.name + ", one key at a time at half of the service's rate"
	table := p.name + ", " + fmt.Sprint(inboxClients) + " clients"
	return []row{
		bare.row(table, "the store, one key at a time", nil, nil),
		served.row(table, "the service, one key at a time", &bare, atLeast(p.least)),
		bareBatch.row(table, fmt.Sprintf("the store, batches of %d", inboxBatch), nil, nil),
		servedBatch.row(table, fmt.Sprintf("the service, batches of %d", inboxBatch), &bareBatch, atLeast(60)),
		half.row(halfTable, "the service", atMost(10)),
		bareHalf.row(halfTable, "the store, at the same rate", nil),
	}, service.stop()
}

// inboxRate is what was measured for one way to acquire.
type inboxRate struct{ keys, cpu []float64 } // keys per second; CPUs that the load generator used

func (r *inboxRate) row(table, name string, base *inboxRate, want *bound) row {
	share := figure{name: "of the store's"}
	if base != nil {
		share = figure{"of the store's", "%", ratios(r.keys, base.keys), want}
	}
	return row{table: table, name: name, figures: []figure{
		{name: "keys/s", values: r.keys}, share, {name: "CPUs of the load generator", values: r.cpu},
	}}
}

// measure acquires keys as fast as it can.
func (r *inboxRate) measure(ctx context.Context, s lease.BatchStore, batch int, d time.Duration) error {
	if _, err := askFor(ctx, s, batch, d/5); err != nil { // connections, statements, scripts
		return err
	}
	before, began := ownCPU(), time.Now()
	n, err := askFor(ctx, s, batch, d)
	took := time.Since(began).Seconds()
	r.keys = append(r.keys, float64(n)/took)
	r.cpu = append(r.cpu, (ownCPU()-before)/took)
	return err
}

// askFor has all clients acquire keys for d, and returns how many keys they got.
func askFor(ctx context.Context, s lease.BatchStore, batch int, d time.Duration) (int64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var keys atomic.Int64
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for range inboxClients {
		all.Go(func() {
			for time.Now().Before(end) && ctx.Err() == nil {
				if err := askOnce(ctx, s, batch); err != nil {
					cancel(err)
				}
				keys.Add(int64(batch))
			}
		})
	}
	all.Wait()
	return keys.Load(), context.Cause(ctx)
}

// askOnce acquires one batch of new keys.
func askOnce(ctx context.Context, s lease.BatchStore, batch int) error {
	reqs := make([]lease.Request, batch)
	for i := range reqs {
		reqs[i] = lease.Request{Key: "orders:billing:order-placed:" + waybill.NewID(), Owner: "bench", TTL: time.Minute}
	}
	var answers []lease.Answer
	var err error
	if batch == 1 {
		answers = make([]lease.Answer, 1)
		answers[0], err = s.TryBegin(ctx, reqs[0])
	} else {
		answers, err = s.TryBeginAll(ctx, reqs)
	}
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Status != lease.Acquired {
			return fmt.Errorf("a new key is %s", a.Status)
		}
	}
	return nil
}

// pacedTimes is how long requests sent at a fixed rate took, for each turn.
type pacedTimes struct {
	rate     []float64 // requests per second
	p50, p99 []float64 // since the request was due, in milliseconds
	late     []float64 // the p99 of the lateness of the clock itself, which needs only a CPU
}

// measure uses a rate that the service reached just before: on a machine that is slower at another
// time it would exceed half of what it can reach.
func (t *pacedTimes) measure(ctx context.Context, s lease.BatchStore, perSecond float64, d time.Duration) error {
	times, late, err := askAtPace(ctx, s, perSecond, d)
	if err != nil {
		return err
	}
	t.rate = append(t.rate, perSecond)
	t.p50, t.p99 = append(t.p50, quantile(times, 0.5)), append(t.p99, quantile(times, 0.99))
	t.late = append(t.late, quantile(late, 0.99))
	return nil
}

func (t *pacedTimes) row(table, name string, want *bound) row {
	return row{table: table, name: name, figures: []figure{
		{name: "requests/s", values: t.rate}, {name: "p50", unit: "ms", values: t.p50},
		{"p99", "ms", t.p99, want}, {name: "p99 of the clock's own lateness", unit: "ms", values: t.late},
	}}
}

// askAtPace sends perSecond requests per second, and returns how long each took since it was due,
// and how late the clock was, in milliseconds.
func askAtPace(ctx context.Context, s lease.BatchStore, perSecond float64, d time.Duration) (times, late []float64, failure error) {
	return atPace(inboxClients, perSecond, d, func() error { return askOnce(ctx, s, 1) })
}

// atPace has workers call do perSecond times per second, at a fixed rate. It returns how long each
// call took since it was due, and how late the clock was, in milliseconds.
func atPace(workers int, perSecond float64, d time.Duration, do func() error) (times, late []float64, failure error) {
	due := make(chan time.Time, int(perSecond*d.Seconds())+1)
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		defer close(due)
		for i := range cap(due) - 1 {
			at := began.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
			time.Sleep(time.Until(at))
			late = append(late, millisSince(at))
			due <- at
		}
	})
	var mu sync.Mutex
	for range workers {
		all.Go(func() {
			for at := range due {
				err := do()
				took := millisSince(at)
				mu.Lock()
				times, failure = append(times, took), errors.Join(failure, err)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return times, late, failure
}

func millisSince(t time.Time) float64 { return float64(time.Since(t)) / 1e6 }

// ownCPU is the CPU time of this process, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
