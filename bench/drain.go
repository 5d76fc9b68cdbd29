package main

import (
	"context"
	"fmt"
	"time"
)

// contender is a way to drain a backlog.
type contender struct {
	name  string
	note  string
	job   job
	peer  string                                   // a key of peers; "" for ours
	share int                                      // drains one share-th of the backlog, because it is slow; 0 is all
	fill  func(context.Context, *world, int) error // creates and fills its tables; nil for ours
}

func floor() contender { return contender{name: "floor", note: floorNote, job: job{Role: "floor"}} }

const floorNote = "a loop written by hand: one reader, batches of 500, asynchronous confirms, one DELETE; no retries, no second relay, no dead letters"

// relays are the relay with its default settings except for what the name says.
func relays() []contender {
	return []contender{
		{name: "relay", note: "shipped defaults, Retention: KeepNothing", job: job{Role: "relay"}},
		{name: "relay, BatchSize 100", job: job{Role: "relay", Batch: 100}},
		{name: "relay, strict", note: "Mode: Strict, one message of a key on the wire", job: job{Role: "relay", Strict: true}},
		{name: "relay, archive on", note: "shipped defaults: what was published is kept for 7 days", job: job{Role: "relay", Archive: true}},
	}
}

// runDrain drains a preloaded backlog to each destination, alternating contenders.
func runDrain(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, kind := range []string{toNothing, toNATS, toRabbit, toQuorum} {
		list := append([]contender{floor()}, relays()...)
		list = append(list, peersFor(kind, 1)...)
		runs, err := b.compete(ctx, list, b.destination(kind), b.postgres)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", kind, err)
		}
		rows = append(rows, drainRows("To "+kind, list, runs, drainTargets[kind])...)
		rows = append(rows, besidePeers(kind, list, runs)...)
	}
	return rows, nil
}

// drained is the result of one run.
type drained struct {
	rate       float64 // messages per second
	cpu        float64 // seconds per 100,000 messages, of all processes but the bench
	brokerCPU  float64 // the broker's part of it
	statements float64 // per 100 messages
	wal        float64 // MB per 100,000 messages
	dead       float64 // dead rows afterwards
	memory     float64 // MB at most
}

// compete runs contenders alternately, as often as the bench repeats, and returns their runs
// in the order of list.
func (b *bench) compete(ctx context.Context, list []contender, to destination, postgres string) ([][]drained, error) {
	runs := make([][]drained, len(list))
	for range b.repeats {
		for i, c := range list {
			one, err := b.drainOnce(ctx, c, to, postgres)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			runs[i] = append(runs[i], one)
		}
	}
	return runs, nil
}

// drainOnce creates a backlog in a new world and lets the contender drain it. The contender
// reaches PostgreSQL at the given URL, which may be that of a proxy.
func (b *bench) drainOnce(ctx context.Context, c contender, to destination, postgres string) (d drained, _ error) {
	return d, b.inWorld(ctx, func(w *world) (err error) {
		n := max(1, b.messages/max(1, c.share))
		if err := w.exec(ctx, "CHECKPOINT"); err != nil { // not within the run
			return err
		}
		fill := c.fill
		if fill == nil {
			fill = func(ctx context.Context, w *world, n int) error { return w.fill(ctx, n) }
		}
		if err := fill(ctx, w, n); err != nil {
			return err
		}
		if c.job.Role == "floor" {
			if err := w.exec(ctx, floorIndexSQL); err != nil {
				return err
			}
		}
		j := c.job
		j.Messages = n
		d, err = w.drain(ctx, j, to, postgres)
		return err
	})
}

// drain starts the job's process on a backlog of j.Messages and measures until all is settled.
func (w *world) drain(ctx context.Context, j job, to destination, postgres string) (d drained, err error) {
	if err := w.exec(ctx, "VACUUM ANALYZE"); err != nil {
		return d, err
	}
	to.Name = w.name
	j.To = to
	if j.Postgres, err = databaseURL(postgres, w.name); err != nil {
		return d, err
	}
	c, err := spawn(ctx, j)
	if err != nil {
		return d, err
	}
	defer c.kill()
	m := w.meter(ctx, c, to.Kind)
	if err := c.begin(); err != nil {
		return d, err
	}
	if err := c.until(ctx, func(r report) bool { return r.Settled >= j.Messages }); err != nil {
		return d, err
	}
	d, err = m.read(ctx, j.Messages)
	if err != nil {
		return d, err
	}
	if err := c.stop(); err != nil {
		return d, err
	}
	d.dead, err = one[float64](ctx, w, "SELECT coalesce(sum(n_dead_tup), 0)::float8 FROM pg_stat_user_tables")
	if err != nil {
		return d, err
	}
	return d, w.checkCount(ctx, c, to, j.Messages)
}

// checkCount compares the broker's own count with the expected one: only messages that have
// arrived may be measured.
func (w *world) checkCount(ctx context.Context, c *child, to destination, want int) error {
	direct := w.destination(to.Kind)
	direct.Name = to.Name
	got := 0
	var err error
	if to.Kind == toNothing {
		r, _ := c.state()
		got = int(r.Taken)
	} else {
		got, err = direct.stored(ctx, want)
	}
	if err != nil || got != want {
		return fmt.Errorf("%s holds %d messages, want %d (%w)", to.Kind, got, want, err)
	}
	return nil
}

// meter reads the counters before a run, so that it can report afterwards what the run used.
type meter struct {
	w         *world
	child     *child
	pids      []int // without the broker's
	broker    []int
	began     time.Time
	cpu       float64
	brokerCPU float64
	wal       string
	err       error
}

func (w *world) meter(ctx context.Context, c *child, kind string) *meter {
	m := &meter{w: w, child: c, pids: servers(w.postgres)}
	if kind != toNothing {
		m.broker = servers(w.destination(kind).URL)
	}
	if len(m.pids) > 0 { // else the servers are remote
		m.pids = append(m.pids, c.pid())
	}
	m.wal, m.err = one[string](ctx, w, "SELECT pg_current_wal_insert_lsn()::text")
	m.cpu, m.brokerCPU = cpuSeconds(m.pids), cpuSeconds(m.broker)
	m.began = time.Now()
	return m
}

func (m *meter) read(ctx context.Context, n int) (d drained, err error) {
	took := time.Since(m.began)
	each := float64(n) / 100_000
	d.rate = float64(n) / took.Seconds()
	d.brokerCPU = (cpuSeconds(m.broker) - m.brokerCPU) / each
	d.cpu = (cpuSeconds(m.pids)-m.cpu)/each + d.brokerCPU
	d.memory = peakMemory(m.child.pid())
	r, err := m.child.state()
	if err != nil || m.err != nil {
		return d, fmt.Errorf("%w %w", err, m.err)
	}
	d.statements = float64(r.Statements) * 100 / float64(n)
	wal, err := one[float64](ctx, m.w, "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8", m.wal)
	d.wal = wal / 1e6 / each
	return d, err
}

// targets are the targets of a contender; a nil bound is none.
type targets struct {
	ratio, cpu, statements *bound
	wal                    bool // no more than the floor's
}

// drainTargets by kind of destination and contender.
var drainTargets = map[string]map[string]targets{
	toNothing: {
		"relay":             {ratio: atLeast(90), statements: atMost(3)},
		"relay, archive on": {ratio: atLeast(90), statements: atMost(3), wal: true},
	},
	toNATS: {
		"relay":             {ratio: atLeast(100), cpu: atMost(110)},
		"relay, archive on": {ratio: atLeast(100), cpu: atMost(110), wal: true},
		"relay, strict":     {ratio: atLeast(60)},
	},
	toRabbit: {"relay": {ratio: atLeast(100)}, "relay, archive on": {ratio: atLeast(100)}},
	toQuorum: {"relay": {ratio: atLeast(100)}, "relay, archive on": {ratio: atLeast(100)}},
}

// drainRows makes the rows of one table. The first contender is the floor.
func drainRows(name string, list []contender, runs [][]drained, wants map[string]targets) []row {
	var rows []row
	for i, c := range list {
		of := func(value func(drained) float64) []float64 { return column(runs[i], value) }
		want := wants[c.name]
		var wal *bound
		if want.wal {
			wal = atMost(median(column(runs[0], written)))
		}
		var ofRate, ofCPU []float64 // the floor is not compared with itself
		if i > 0 {
			ofRate = ratios(of(rate), column(runs[0], rate))
			ofCPU = ratios(known(of(cpu)), known(column(runs[0], cpu)))
		}
		figures := []figure{
			{name: "messages/s", values: of(rate)},
			{"of the floor", "%", ofRate, want.ratio},
			{name: "CPU-s per 100,000", values: known(of(cpu))},
			{"CPU, of the floor's", "%", ofCPU, want.cpu},
			{"statements per 100", "", of(func(d drained) float64 { return d.statements }), want.statements},
			{"WAL per 100,000", "MB", of(written), wal},
			{name: "dead rows after", values: of(func(d drained) float64 { return d.dead })},
		}
		rows = append(rows, row{table: name, name: c.name, figures: figures, note: c.note})
	}
	return rows
}

func rate(d drained) float64    { return d.rate }
func cpu(d drained) float64     { return d.cpu }
func written(d drained) float64 { return d.wal }

func column(runs []drained, value func(drained) float64) []float64 {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = value(r)
	}
	return values
}

// known returns values, or none if they are zero because nothing could be measured.
func known(values []float64) []float64 {
	for _, v := range values {
		if v <= 0 {
			return nil
		}
	}
	return values
}
