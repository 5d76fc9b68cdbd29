package main

import (
	"context"
	"fmt"
	"time"
)

// roundTrip is what the proxies add to each round trip: two machines in one data centre.
const roundTrip = time.Millisecond

// runNetwork drains backlogs through proxies in front of PostgreSQL and the broker.
func runNetwork(ctx context.Context, b *bench) ([]row, error) {
	postgres, closePostgres, err := delayed(b.postgres)
	if err != nil {
		return nil, err
	}
	defer closePostgres()
	delay, err := b.measureDelay(ctx, postgres)
	if err != nil {
		return nil, err
	}
	rows := []row{{table: "Round trip", name: "through the proxy, longer by", figures: []figure{{name: "time", unit: "ms", values: delay}}}}
	for _, kind := range []string{toNATS, toRabbit} {
		to := b.destination(kind)
		var closeBroker func()
		if to.URL, closeBroker, err = delayed(to.URL); err != nil {
			return rows, err
		}
		list := append([]contender{floor(), relays()[0], relays()[1]}, peersFor(kind, 10)...)
		runs, err := b.compete(ctx, list, to, postgres)
		closeBroker()
		if err != nil {
			return rows, fmt.Errorf("%s: %w", kind, err)
		}
		wants := map[string]targets{"relay": {ratio: atLeast(70)}}
		rows = append(rows, drainRows(fmt.Sprintf("To %s, round trip %v", kind, roundTrip), list, runs, wants)...)
	}
	return rows, nil
}

// delayed returns the URL of a proxy in front of a server.
func delayed(server string) (url string, closeProxy func(), _ error) {
	host, err := hostOf(server)
	if err != nil {
		return "", nil, err
	}
	p, err := newProxy(host, roundTrip)
	if err != nil {
		return "", nil, err
	}
	return through(server, p.address()), p.close, nil
}

// measureDelay returns how many milliseconds longer queries take through the proxy.
func (b *bench) measureDelay(ctx context.Context, proxied string) (delay []float64, _ error) {
	direct, err := queryTimes(ctx, b.postgres)
	if err != nil {
		return nil, err
	}
	late, err := queryTimes(ctx, proxied)
	if err != nil {
		return nil, err
	}
	for _, t := range late {
		delay = append(delay, t-median(direct))
	}
	return delay, nil
}

func queryTimes(ctx context.Context, url string) (times []float64, _ error) {
	pool, err := openPool(ctx, url, 1, nil)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	for range 110 {
		began := time.Now()
		if _, err := pool.Exec(ctx, "SELECT 1"); err != nil {
			return nil, err
		}
		times = append(times, milliseconds(time.Since(began)))
	}
	return times[10:], nil // without the start of the connection
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
