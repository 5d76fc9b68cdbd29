package main

import (
	"context"
	"fmt"
	"time"
)

// besides are what may run next to the writers. The first is nothing, the second the hand-written loop.
func besides() []contender {
	return []contender{
		{name: "alone", note: "no relay at work"},
		{name: "by hand", note: followNote, job: job{Role: "floor", Poll: followPoll}},
		relays()[0], // keeps nothing, like the loop
		relays()[3], // with nothing set
	}
}

// followPoll is how long the hand-written loop sleeps when it finds nothing. Polling is less to write than
// listening, for which the writers would have to notify, too.
const followPoll = 10 * time.Millisecond

const followNote = "the floor's loop, which begins again with the first row after a batch that was not full, because transactions commit in any order, " +
	"and polls every 10 ms when it finds nothing, which is less to write than LISTEN and what notifies it; no retries, no second relay, no dead letters"

// runSteady measures writers next to a running relay.
func runSteady(ctx context.Context, b *bench) (rows []row, _ error) {
	return rows, b.inWorld(ctx, func(w *world) error {
		more, err := w.atFullSpeed(ctx)
		rows = append(rows, more...)
		for _, perSecond := range []float64{100, 1000, 2000} {
			if err != nil {
				return err
			}
			more, err = w.atSteadyRate(ctx, perSecond)
			rows = append(rows, more...)
		}
		return err
	})
}

// besideTurn empties the tables and calls do while the contender runs, which is nil if it has no job.
// Everything that do has written must have arrived at the broker afterwards.
func (w *world) besideTurn(ctx context.Context, c contender, do func(*child) error) error {
	if err := w.emptyTables(ctx); err != nil {
		return err
	}
	if c.job.Role == "" {
		return do(nil)
	}
	start := w.start
	if c.job.Role == "relay" {
		start = w.startRelay
	}
	p, err := start(ctx, c.job, toNATS)
	if err != nil {
		return err
	}
	defer p.kill()
	if err := do(p); err != nil {
		return err
	}
	if err := w.untilEmpty(ctx); err != nil {
		return err
	}
	if err := p.stop(); err != nil {
		return err
	}
	return w.checkArrived(ctx, p)
}

// checkArrived compares the stream with the business rows, and removes it for the next turn.
func (w *world) checkArrived(ctx context.Context, c *child) error {
	n, err := one[int](ctx, w, "SELECT count(*) FROM business")
	if err != nil {
		return err
	}
	to := w.destination(toNATS)
	to.Name = w.name
	defer to.remove()
	return w.checkCount(ctx, c, to, n)
}

// atFullSpeed floods the table with each of besides running.
func (w *world) atFullSpeed(ctx context.Context) ([]row, error) {
	l, err := w.writers(ctx, w.url, connections)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	if _, err := flood(ctx, connections, w.slice()/5, l.inTx); err != nil { // connections are made, statements prepared
		return nil, err
	}
	list := besides()
	rates, left := make([][]float64, len(list)), make([][]float64, len(list))
	err = inTurns(w.repeats, len(list), func(at int) error {
		return w.besideTurn(ctx, list[at], func(*child) error {
			rate, err := flood(ctx, connections, w.slice(), l.inTx)
			if err != nil {
				return fmt.Errorf("with %s: %w", list[at].name, err)
			}
			n, err := w.left(ctx)
			rates[at], left[at] = append(rates[at], rate), append(left[at], float64(n))
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return fullSpeedRows(list, rates, left), nil
}

func fullSpeedRows(list []contender, rates, left [][]float64) []row {
	var rows []row
	for i, c := range list {
		r := row{table: "Writer.InTx at full speed, 8 connections, relays to NATS", name: c.name, note: c.note,
			figures: []figure{{name: "transactions/s", values: rates[i]}}}
		if i > 0 {
			var share, worth *bound
			if c.job.Role == "relay" {
				share, worth = atLeast(85), atMost(0.5)
			}
			r.figures = append(r.figures,
				figure{"of alone", "%", ratios(rates[i], rates[0]), share},
				figure{name: "backlog at the end", unit: "messages", values: left[i]},
				figure{"which is worth", "s", quotients(left[i], rates[i]), worth})
		}
		rows = append(rows, r)
	}
	return rows
}

// pacedConnections is the number of connections of a writer with a steady rate.
const pacedConnections = 4

// atSteadyRate measures the CPU time per message of each of besides, which is what PostgreSQL needs for
// just the writer, and for the others the addition to it.
func (w *world) atSteadyRate(ctx context.Context, perSecond float64) ([]row, error) {
	l, err := w.writers(ctx, w.url, pacedConnections)
	if err != nil {
		return nil, err
	}
	defer l.pool.Close()
	list := besides()
	used := make([][]float64, len(list))
	err = inTurns(w.repeats, len(list), func(at int) error {
		return w.besideTurn(ctx, list[at], func(c *child) error {
			if err := w.exec(ctx, "CHECKPOINT"); err != nil { // not within the turn
				return err
			}
			cpu, err := w.cpuAtPace(ctx, l, c, perSecond)
			used[at] = append(used[at], cpu)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("%v/s: %w", perSecond, err)
	}
	return steadyRows(number(perSecond), list, used), nil
}

// steadyRows subtracts from the usage of each turn that of the writer by itself in the same round.
func steadyRows(perSecond string, list []contender, used [][]float64) []row {
	var rows []row
	byHand := known(differences(used[1], used[0]))
	for i, c := range list {
		r := row{table: "CPU of relay and PostgreSQL at " + perSecond + " messages/s, 4 connections, to NATS", name: c.name}
		values := known(used[0])
		if i == 0 {
			r.note = "PostgreSQL's for the writer; it has been taken from what stands below"
		} else {
			values = known(differences(used[i], used[0]))
		}
		r.figures = []figure{{name: "CPU per message", unit: "µs", values: values}}
		if c.job.Role == "relay" {
			r.figures = append(r.figures, figure{"times by hand", "", quotients(values, byHand), atMost(1.5)})
		}
		rows = append(rows, r)
	}
	return rows
}

func differences(values, base []float64) []float64 {
	out := make([]float64, min(len(values), len(base)))
	for i := range out {
		out[i] = values[i] - base[i]
	}
	return out
}

// cpuAtPace returns how many microseconds of CPU time PostgreSQL and the child, if there is one, need for
// each message of a writer with a steady rate, after a warm-up that does not count.
func (w *world) cpuAtPace(ctx context.Context, l *writers, c *child, perSecond float64) (float64, error) {
	pids := servers(w.postgres)
	if c != nil && len(pids) > 0 { // else PostgreSQL is remote
		pids = append(pids, c.pid())
	}
	turn := time.Duration(w.size(10, 1)) * time.Second
	if _, err := l.publishAtPace(ctx, c, perSecond, turn/10); err != nil {
		return 0, err
	}
	before := cpuSeconds(pids)
	n, err := l.publishAtPace(ctx, c, perSecond, turn)
	return (cpuSeconds(pids) - before) * 1e6 / float64(n), err
}

// publishAtPace commits messages at a fixed rate for a time, waits until the child, if there is one, has
// published them all, and returns how many there were.
func (l *writers) publishAtPace(ctx context.Context, c *child, perSecond float64, d time.Duration) (n int, _ error) {
	var before report
	if c != nil {
		before, _ = c.state() // an error shows below
	}
	times, _, err := atPace(pacedConnections, perSecond, d, func() error { return l.inTx(ctx) })
	n = len(times)
	if c == nil || err != nil {
		return n, err
	}
	return n, c.until(ctx, func(r report) bool { return r.Settled >= before.Settled+n })
}
