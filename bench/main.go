// Command bench measures how fast a relay drains a backlog from PostgreSQL, beside a loop
// written by hand that does nothing else (the floor), in one run on the same servers.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"
)

// settings are what a run is told.
type settings struct {
	postgres, nats, rabbit string
	messages, size, keys   int
	repeats                int
}

func main() {
	var s settings
	flag.StringVar(&s.postgres, "postgres", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable", "PostgreSQL `URL`")
	flag.StringVar(&s.nats, "nats", "nats://127.0.0.1:4222", "NATS `URL`")
	flag.StringVar(&s.rabbit, "rabbitmq", "amqp://guest:guest@127.0.0.1:5672/", "RabbitMQ `URL`")
	flag.IntVar(&s.messages, "messages", 50_000, "`number` of messages in the backlog")
	flag.IntVar(&s.size, "size", 512, "`bytes` of each payload")
	flag.IntVar(&s.keys, "keys", 10_000, "`number` of keys")
	flag.IntVar(&s.repeats, "repeats", 3, "`number` of runs, of which the median counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		log.Fatal(err)
	}
}

// run measures every way of draining to every publisher, and prints a line for each.
func run(ctx context.Context, s settings) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "TO\tBY\tMESSAGES/S\tLOWEST\tHIGHEST\tOF THE FLOOR\n")
	for _, to := range []string{"nothing", "nats", "rabbitmq"} {
		floor := 0.0
		for _, by := range drainers {
			rates := make([]float64, 0, s.repeats)
			for range s.repeats {
				rate, err := measure(ctx, s, to, by)
				if err != nil {
					return fmt.Errorf("%s to %s: %w", by.name, to, err)
				}
				rates = append(rates, rate)
			}
			slices.Sort(rates)
			median := rates[len(rates)/2]
			if floor == 0 {
				floor = median
			}
			fmt.Fprintf(out, "%s\t%s\t%.0f\t%.0f\t%.0f\t%.0f %%\n", to, by.name, median, rates[0], rates[len(rates)-1], 100*median/floor)
		}
	}
	return out.Flush()
}

// measure fills a new backlog and drains it, and returns messages per second.
func measure(ctx context.Context, s settings, to string, by drainer) (float64, error) {
	w, err := newWorld(ctx, s)
	if err != nil {
		return 0, err
	}
	defer w.close()
	if err := w.fill(ctx, by.prepare); err != nil {
		return 0, err
	}
	p, err := w.publisher(ctx, to)
	if err != nil {
		return 0, err
	}
	defer p.close()
	began := time.Now()
	if err := by.drain(ctx, w, p.Publisher); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if n, err := p.stored(ctx); err != nil || n != s.messages {
		return 0, fmt.Errorf("the broker holds %d messages, want %d (%w)", n, s.messages, err)
	}
	return float64(s.messages) / took.Seconds(), nil
}
