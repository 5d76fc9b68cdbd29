// Command bench measures what waybill costs: how fast a relay drains a backlog compared with
// a hand-written loop and with other libraries, how long a message takes, what an enqueue
// costs its transaction, and whether any of it gets worse with time. It prints each figure
// next to its target and, with -out, writes the tables into results/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// settings are the settings of a run.
type settings struct {
	postgres, mysql, nats, rabbit, redis string
	messages                             int // in the backlog that is drained
	payload, keys                        int
	records                              int // in the inbox while handlers are measured
	repeats                              int
	quick                                bool
	out                                  string // the directory of the results; "" writes nothing
}

func main() {
	if text := os.Getenv(jobVariable); text != "" {
		os.Exit(runJob(text))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, chosen, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, s)
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Fprintln(stdout, b.surroundings)
	for _, e := range chosen {
		fmt.Fprintf(stderr, "running %s\n", e.name)
		rows, err := e.run(ctx, b)
		e.print(stdout, rows) // the rows so far, even of an experiment that has failed
		if err == nil && b.out != "" {
			err = b.write(e, rows)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// parse reads the flags. -quick selects small sizes, unless others are given.
func parse(args []string, stderr io.Writer) (settings, []experiment, error) {
	var s settings
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "run these `experiments`, separated by commas: "+strings.Join(experimentNames(), ", "))
	flags.StringVar(&s.postgres, "postgres", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable", "PostgreSQL `URL` of a role that may create databases")
	flags.StringVar(&s.mysql, "mysql", "root@tcp(127.0.0.1:3306)/?interpolateParams=true", "data source `name` of a user of MariaDB who may create databases")
	flags.StringVar(&s.nats, "nats", "nats://127.0.0.1:4222", "NATS `URL`")
	flags.StringVar(&s.rabbit, "rabbitmq", "amqp://guest:guest@127.0.0.1:5672/", "RabbitMQ `URL`")
	flags.StringVar(&s.redis, "redis", "redis://127.0.0.1:6379/0", "Redis `URL`")
	flags.IntVar(&s.messages, "n", 0, "`messages` in the backlog (default 200000, with -quick 5000)")
	flags.IntVar(&s.payload, "payload", 512, "`bytes` of each payload")
	flags.IntVar(&s.keys, "keys", 10_000, "`number` of keys")
	flags.IntVar(&s.records, "records", 0, "`records` that the inboxes of the experiment records hold (default 1000000, with -quick 20000); the target is for 50000000, which take 20 GB twice")
	flags.IntVar(&s.repeats, "repeats", 0, "`runs` of each contender (default 3, with -quick 1)")
	flags.BoolVar(&s.quick, "quick", false, "small sizes, to see that everything runs; the figures mean nothing")
	flags.StringVar(&s.out, "out", "", "write the tables into README.md of this `directory`, and the pictures next to it")
	if err := flags.Parse(args); err != nil {
		return s, nil, err
	}
	setDefault(&s.messages, s.size(200_000, 5_000))
	setDefault(&s.repeats, s.size(3, 1))
	setDefault(&s.records, s.size(1_000_000, 20_000))
	if s.messages < 1 || s.repeats < 1 || s.records < 1 || s.keys < 2 || s.payload < 1 {
		return s, nil, errors.New("-n, -repeats, -records and -payload must be at least 1, -keys at least 2")
	}
	chosen, err := choose(*only)
	return s, chosen, err
}

func setDefault(field *int, value int) {
	if *field == 0 {
		*field = value
	}
}

// size returns the value of a quantity in a full or in a quick run.
func (s settings) size(full, quick int) int {
	if s.quick {
		return quick
	}
	return full
}

// choose returns the experiments that are named in a list, or all, in their own order.
func choose(list string) ([]experiment, error) {
	if list == "" {
		return experiments, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(experimentNames(), name) {
			return nil, fmt.Errorf("-only: there is no experiment %q; there are %s", name, strings.Join(experimentNames(), ", "))
		}
	}
	var chosen []experiment
	for _, e := range experiments {
		if slices.Contains(names, e.name) {
			chosen = append(chosen, e)
		}
	}
	return chosen, nil
}
