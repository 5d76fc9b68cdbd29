package main

import (
	"context"
	"fmt"
	"time"
)

const sharingTable = "Sharing the lanes evenly"

// runReplicas measures several relay processes on one database, and how long it takes until
// they share the lanes when one starts, stops or dies.
func runReplicas(ctx context.Context, b *bench) ([]row, error) {
	rows, err := b.replicaRates(ctx)
	if err != nil {
		return rows, err
	}
	var started, stopped, killed []float64
	for range b.repeats {
		err := b.inWorld(ctx, func(w *world) error {
			times, err := w.comeAndGo(ctx)
			started, stopped, killed = append(started, times[0]), append(stopped, times[1]), append(killed, times[2])
			return err
		})
		if err != nil {
			return rows, err
		}
	}
	return append(rows,
		row{table: sharingTable, name: "a fourth relay starts", figures: []figure{{"even after", "s", started, atMost(5)}}},
		row{table: sharingTable, name: "one of four stops", figures: []figure{{"even after", "s", stopped, atMost(5)}}},
		row{table: sharingTable, name: "one of three is killed (kill -9)", figures: []figure{{"even after", "s", killed, atMost(10)}}},
	), nil
}

func (b *bench) replicaRates(ctx context.Context) ([]row, error) {
	counts := []int{1, 2, 4, 8}
	wants := map[int]*bound{2: atLeast(85), 4: atLeast(85), 8: atLeast(65)}
	rates := make(map[int][]float64)
	for range b.repeats {
		for _, count := range counts {
			err := b.inWorld(ctx, func(w *world) error {
				rate, err := w.drainBy(ctx, count)
				rates[count] = append(rates[count], rate)
				return err
			})
			if err != nil {
				return nil, fmt.Errorf("%d relays: %w", count, err)
			}
		}
	}
	var rows []row
	for _, count := range counts {
		var ofOne []float64
		if count > 1 {
			ofOne = ratios(rates[count], rates[1])
		}
		rows = append(rows, row{table: "Relay processes on one database, to NATS", name: fmt.Sprint(count), figures: []figure{
			{name: "messages/s, all together", values: rates[count]},
			{"of one", "%", ofOne, wants[count]},
		}})
	}
	return rows, nil
}

// drainBy lets several relays that already share the lanes drain a backlog that appears with
// one commit. The clock runs from the first message that is settled.
func (w *world) drainBy(ctx context.Context, count int) (float64, error) {
	relays, err := w.startRelays(ctx, count)
	defer killAll(relays)
	if err != nil {
		return 0, err
	}
	if err := w.exec(ctx, fillSQL, zipfKeys(w.messages, w.keys), make([]byte, w.payload)); err != nil {
		return 0, err
	}
	var began time.Time
	first := 0
	for last := time.Now().Add(patience); time.Now().Before(last); time.Sleep(2 * time.Millisecond) {
		n, err := settledBy(relays)
		if err != nil {
			return 0, err
		}
		if n > 0 && first == 0 {
			first, began = n, time.Now()
		}
		if n >= w.messages {
			to := w.destination(toNATS)
			to.Name = w.name
			return float64(n-first) / time.Since(began).Seconds(), w.checkCount(ctx, nil, to, w.messages)
		}
	}
	return 0, fmt.Errorf("the backlog is not empty after %v", patience)
}

func (w *world) startRelays(ctx context.Context, count int) ([]*child, error) {
	var relays []*child
	for range count {
		c, err := w.start(ctx, job{Role: "relay"}, toNATS)
		if err != nil {
			return relays, err
		}
		relays = append(relays, c)
	}
	_, err := w.untilShared(ctx, count)
	return relays, err
}

func settledBy(relays []*child) (sum int, _ error) {
	for _, c := range relays {
		r, err := c.state()
		if err != nil {
			return 0, err
		}
		sum += r.Settled
	}
	return sum, nil
}

func killAll(children []*child) {
	for _, c := range children {
		c.kill()
	}
}

// comeAndGo returns the seconds until the lanes are shared evenly after a start, a graceful
// stop, and a kill.
func (w *world) comeAndGo(ctx context.Context) (times [3]float64, _ error) {
	relays, err := w.startRelays(ctx, 3)
	defer func() { killAll(relays) }()
	if err != nil {
		return times, err
	}
	for i, change := range []func() error{
		func() error {
			c, err := w.start(ctx, job{Role: "relay"}, toNATS)
			if err == nil {
				relays = append(relays, c)
			}
			return err
		},
		func() error { return relays[0].stop() },
		func() error { relays[1].kill(); return nil },
	} {
		began := time.Now()
		if err := change(); err != nil {
			return times, err
		}
		if _, err := w.untilShared(ctx, 4-i); err != nil {
			return times, err
		}
		times[i] = time.Since(began).Seconds()
	}
	return times, nil
}
