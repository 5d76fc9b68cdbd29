package main

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

const pace = 10 * time.Millisecond // between messages: 100 per second

// runLatency measures from the return of COMMIT to the broker's confirmation.
func runLatency(ctx context.Context, b *bench) (rows []row, _ error) {
	for _, part := range []func(context.Context, *world) ([]row, error){inOneProcess, inTwoProcesses, longTransactions, idle} {
		err := b.inWorld(ctx, func(w *world) error {
			if err := w.exec(ctx, businessTableSQL); err != nil {
				return err
			}
			more, err := part(ctx, w)
			rows = append(rows, more...)
			return err
		})
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

const latencyTable = "100 messages/s, commit to confirmation by NATS, relay otherwise idle"

func (s settings) latencyTime() time.Duration { return time.Duration(s.size(10, 3)) * time.Second }

// inOneProcess and inTwoProcesses compare a relay with a loop by hand that NOTIFY wakes, in turns.
func inOneProcess(ctx context.Context, w *world) ([]row, error) {
	return w.besideHand(ctx, "in one process", 0.5, 3, func(byHand bool) ([]float64, error) {
		c, err := w.startPublishing(ctx, job{Role: "latency", Seconds: w.latencyTime().Seconds(), Listen: byHand})
		if err != nil {
			return nil, err
		}
		defer c.kill()
		if err := c.until(ctx, func(r report) bool { return r.Values != nil }); err != nil {
			return nil, err
		}
		r, err := c.state()
		if err != nil {
			return nil, err
		}
		return r.Values, c.stop() // so that its lanes are free for the next
	})
}

// startPublishing starts a relay, or what publishes by hand and owns no lanes.
func (w *world) startPublishing(ctx context.Context, j job) (*child, error) {
	if j.Listen {
		return w.start(ctx, j, toNATS)
	}
	return w.startRelay(ctx, j, toNATS)
}

// besideHand measures several times, by hand and not, and compares them pair by pair.
func (w *world) besideHand(ctx context.Context, name string, p50, p99 float64, measure func(byHand bool) ([]float64, error)) ([]row, error) {
	if err := w.exec(ctx, floorIndexSQL); err != nil {
		return nil, err
	}
	var p50s, p99s [2][]float64
	err := inTurns(w.repeats, 2, func(at int) error {
		values, err := measure(at == 0)
		p50s[at] = append(p50s[at], quantile(values, 0.5))
		p99s[at] = append(p99s[at], quantile(values, 0.99))
		return err
	})
	return []row{
		{table: latencyTable, name: "by hand, " + name, note: "NOTIFY in the round trip of COMMIT, and a loop that waits for it", figures: []figure{
			{name: "p50", unit: "ms", values: p50s[0]}, {name: "of by hand"}, {name: "p99", unit: "ms", values: p99s[0]},
		}},
		{table: latencyTable, name: "writer (InTx) and relay " + name, figures: []figure{
			{"p50", "ms", p50s[1], atMost(p50)}, {"of by hand", "%", ratios(p50s[1], p50s[0]), atMost(110)}, {"p99", "ms", p99s[1], atMost(p99)},
		}},
	}, err
}

// latencyJob runs writer and relay in one process and reports every latency in milliseconds.
func latencyJob(ctx context.Context, c *client) error {
	pool, pub, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer pool.Close()
	defer pub.close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	times := newConfirmations(pub.Publisher)
	r, err := relay.New(store, times, c.config())
	if err != nil {
		return err
	}
	writer, err := outbox.NewWriter(store, outbox.Config{Source: "bench", Observer: quiet})
	if err != nil {
		return err
	}
	l := &writers{outgoing: outgoing{payload: make([]byte, 512)}, pool: pool, writer: writer}
	publish, commit := r.Run, l.inTxWithID
	if c.Listen {
		publish = func(run context.Context) error { return followWoken(run, pool, times, c.add) }
		commit = l.byHandNotifying
	}
	run, err := c.start(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- publish(run) }()
	commits, err := keepPace(run, time.Duration(c.Seconds*float64(time.Second)), commit)
	if err != nil {
		return err
	}
	time.Sleep(time.Second) // for the last confirmation
	values, err := latencies(commits, times.all())
	if err != nil {
		return err
	}
	c.tell(report{Values: values})
	<-run.Done()
	return <-ended
}

// keepPace commits a transaction with a message every 10 ms, and returns when each had
// committed, by message id.
func keepPace(ctx context.Context, d time.Duration, commit func(context.Context) (string, error)) (map[string]int64, error) {
	commits := make(map[string]int64)
	warm := time.Now().Add(time.Second) // connections are made, statements prepared
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for end := warm.Add(d); time.Now().Before(end); {
		<-tick.C
		id, err := commit(ctx)
		if err != nil {
			return nil, err
		}
		if now := time.Now(); now.After(warm) {
			commits[id] = now.UnixNano()
		}
	}
	return commits, nil
}

// latencies returns the time from commit to confirmation of each message in milliseconds: a
// confirmation that came before COMMIT had returned counts as 0.
func latencies(commits, confirmed map[string]int64) ([]float64, error) {
	values := make([]float64, 0, len(commits))
	for id, at := range commits {
		then, ok := confirmed[id]
		if !ok {
			return nil, fmt.Errorf("message %s has not been confirmed", id)
		}
		values = append(values, max(0, float64(then-at)/1e6))
	}
	return values, nil
}

func inTwoProcesses(ctx context.Context, w *world) ([]row, error) {
	l, err := w.writers(ctx, w.url, 2)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	return w.besideHand(ctx, "in two processes", 1, 5, func(byHand bool) ([]float64, error) {
		publishes, commit := job{Role: "relay", Notes: true}, l.inTxWithID
		if byHand {
			publishes, commit = job{Role: "floor", Notes: true, Listen: true}, l.byHandNotifying
		}
		return w.alongside(ctx, publishes, func() (map[string]int64, error) { return keepPace(ctx, w.latencyTime(), commit) })
	})
}

// alongside runs what publishes in a separate process while write commits messages, and returns
// the latencies.
func (w *world) alongside(ctx context.Context, publishes job, write func() (map[string]int64, error)) ([]float64, error) {
	c, err := w.startPublishing(ctx, publishes)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	commits, err := write()
	if err != nil {
		return nil, err
	}
	if err := w.untilEmpty(ctx); err != nil {
		return nil, err
	}
	if err := c.stop(); err != nil {
		return nil, err
	}
	r, err := c.state()
	if err != nil {
		return nil, err
	}
	return latencies(commits, r.Times)
}

func (w *world) untilEmpty(ctx context.Context) error {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(50 * time.Millisecond) {
		if n, err := w.left(ctx); err != nil || n == 0 {
			return err
		}
	}
	return fmt.Errorf("the outbox is not empty after %v", patience)
}

// longTransactions measures transactions that stay open after their enqueue while others do
// the same, with a relay that sleeps.
func longTransactions(ctx context.Context, w *world) ([]row, error) {
	const many, connections = 100, 75 // a server allows 100 connections by default
	l, err := w.writers(ctx, w.url, connections)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	byWriter := func(ctx context.Context, tx pgx.Tx) (string, error) {
		result, err := l.writer.Enqueue(ctx, tx, l.message())
		if err != nil {
			return "", err
		}
		return result.IDs[0], nil
	}
	byInsert := func(ctx context.Context, tx pgx.Tx) (id string, err error) {
		return id, tx.QueryRow(ctx, "INSERT INTO waybill.outbox (topic, key, payload) VALUES ($1, $2, '{}') RETURNING id", topic, l.key()).Scan(&id)
	}
	var rows []row
	for _, way := range []struct {
		name    string
		enqueue func(context.Context, pgx.Tx) (string, error)
	}{{"Writer.Enqueue", byWriter}, {"plain INSERT", byInsert}} {
		values, err := w.alongside(ctx, job{Role: "relay", Notes: true}, func() (map[string]int64, error) { return l.overlap(ctx, many, way.enqueue) })
		if err != nil {
			return rows, fmt.Errorf("%s: %w", way.name, err)
		}
		r := row{
			table: "100 overlapping transactions, begun 3 ms apart, that stay open 200 ms after their enqueue; relay asleep in another process", name: way.name,
			figures: []figure{
				{name: "p50", unit: "ms", values: []float64{quantile(values, 0.5)}},
				{"p99", "ms", []float64{quantile(values, 0.99)}, atMost(20)},
				{name: "most", unit: "ms", values: []float64{quantile(values, 1)}},
			},
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// overlap runs transactions that begin 3 ms after each other, enqueue, wait and commit: some
// 67 are open at once.
func (l *writers) overlap(ctx context.Context, many int, enqueue func(context.Context, pgx.Tx) (string, error)) (map[string]int64, error) {
	time.Sleep(2 * time.Second) // for the relay to become idle
	var mu sync.Mutex
	var failure error
	commits := make(map[string]int64)
	var all sync.WaitGroup
	for range many {
		time.Sleep(3 * time.Millisecond)
		all.Go(func() {
			var id string
			err := pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) (err error) {
				id, err = enqueue(ctx, tx)
				time.Sleep(200 * time.Millisecond)
				return err
			})
			at := time.Now().UnixNano()
			mu.Lock()
			defer mu.Unlock()
			commits[id] = at
			if err != nil {
				failure = err
			}
		})
	}
	all.Wait()
	return commits, failure
}

// idle counts the statements of a relay that has nothing to do.
func idle(ctx context.Context, w *world) ([]row, error) {
	c, err := w.startRelay(ctx, job{Role: "relay"}, toNATS)
	if err != nil {
		return nil, err
	}
	defer c.kill()
	settle, during := time.Duration(w.size(15, 2))*time.Second, time.Duration(w.size(30, 5))*time.Second
	time.Sleep(settle)
	before, err := c.state()
	if err != nil {
		return nil, err
	}
	time.Sleep(during)
	after, err := c.state()
	perSecond := float64(after.Statements-before.Statements) / during.Seconds()
	return []row{{table: "Idle relay", name: fmt.Sprintf("over %v", during), figures: []figure{
		{"statements/s", "", []float64{perSecond}, atMost(1)},
	}}}, err
}

// confirmations is a publisher that records when the broker has confirmed each message.
type confirmations struct {
	contract.Publisher
	mu    sync.Mutex
	times map[string]int64
}

func newConfirmations(pub contract.Publisher) *confirmations {
	return &confirmations{Publisher: pub, times: make(map[string]int64)}
}

func (c *confirmations) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	wait := c.Publisher.Send(ctx, msgs)
	return func() []error {
		errs := wait()
		now := time.Now().UnixNano()
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, err := range errs {
			if err == nil {
				c.times[msgs[i].ID] = now
			}
		}
		return errs
	}
}

func (c *confirmations) all() map[string]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.times)
}
