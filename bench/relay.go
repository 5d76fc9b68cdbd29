package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/relay/record"
	"github.com/waybill-go/waybill/store/pgstore"
)

// quiet keeps log output out of the measurement.
var quiet = observe.LogTo(slog.New(slog.DiscardHandler))

// progress is an observer that counts the successful messages of one operation.
type progress struct {
	observe.Observer
	op   observe.Op
	done func(int)
}

func (p progress) Observe(_ context.Context, e observe.Event) {
	if e.Op == p.op && e.Err == nil {
		p.done(e.Count)
	}
}

// config returns the defaults except for what the job says.
func (c *client) config() relay.Config {
	cfg := relay.Config{BatchSize: c.Batch, PollInterval: c.Poll, Observer: progress{quiet, observe.OpSettle, c.add}}
	if !c.Archive {
		cfg.Retention = relay.KeepNothing
	}
	if c.Strict {
		cfg.Mode = relay.Strict
	}
	return cfg
}

// startRecording records a relay in a file that stop removes.
func startRecording(cfg *relay.Config) (stop func(), err error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	rec, err := record.Open(filepath.Join(dir, "relay.rec"), record.Config{})
	if err != nil {
		return nil, err
	}
	cfg.Recorder = rec
	return func() {
		_ = rec.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// relayJob runs a relay until the parent wants it to stop.
func relayJob(ctx context.Context, c *client) error {
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
	var to contract.Publisher = pub.Publisher
	if c.Notes {
		to = times
	}
	cfg := c.config()
	if c.Record {
		stop, err := startRecording(&cfg)
		if err != nil {
			return err
		}
		defer stop()
	}
	r, err := relay.New(store, to, cfg)
	if err != nil {
		return err
	}
	run, err := c.start(ctx)
	if err != nil {
		return err
	}
	if err := r.Run(run); err != nil {
		return err
	}
	c.tellTaken(pub)
	if c.Notes {
		c.tell(report{Times: times.all()})
	}
	return nil
}
