package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// jobVariable is the environment variable that makes this program a child with a job.
const jobVariable = "WAYBILL_BENCH_JOB"

// job is what a child process does. It is a separate process so that its CPU time and its
// memory can be distinguished from the bench's, and so that it can be killed.
type job struct {
	Role     string // a key of roles
	Postgres string
	To       destination
	Messages int // the backlog

	// Of the relay.
	Batch   int // 0 for the default
	Strict  bool
	Archive bool
	Record  bool          // in a file
	Poll    time.Duration // 0 for the default; makes the floor continue when it finds nothing

	// Of peers.
	Peer                 string // a key of peers
	Workers, Connections int

	// Of the inbox service.
	Redis  string // the store; PostgreSQL if empty
	Prefix string // of Redis's keys

	// Of the endtoend experiment.
	Together int // messages that the consumer handles in one transaction; 0 for the default

	// Of the latency experiment.
	Seconds float64
	Notes   bool // report when each message was confirmed
	Listen  bool // by hand: publish when notified
}

// report is what a child sends to its parent, one JSON object per line.
type report struct {
	Ready      bool             `json:",omitempty"` // waits for its start
	Settled    int              // messages done so far
	Statements int64            // statements sent since the start
	Taken      int64            `json:",omitempty"` // what the publisher "nothing" has counted
	Times      map[string]int64 `json:",omitempty"` // confirmations, in nanoseconds, by message id
	Values     []float64        `json:",omitempty"` // the measured values of a job that measures itself
	Address    string           `json:",omitempty"` // of a service
	Error      string           `json:",omitempty"`
}

// roles are the kinds of jobs.
var roles = map[string]func(ctx context.Context, c *client) error{
	"floor":    floorJob,
	"relay":    relayJob,
	"latency":  latencyJob,
	"peer":     peerJob,
	"inbox":    inboxJob,
	"byhand":   endToEndByHand,
	"endtoend": endToEndJob,
}

// client is a child's side of the conversation with its parent.
type client struct {
	job
	tracer counter
	began  int64  // statements before the start
	ended  func() // called when all is settled

	settled atomic.Int64

	mu  sync.Mutex
	out *json.Encoder
}

// runJob does the job and returns the exit code.
func runJob(text string) int {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c := &client{out: json.NewEncoder(os.Stdout)}
	c.ended = func() { c.tell(report{}) }
	err := json.Unmarshal([]byte(text), &c.job)
	if role := roles[c.Role]; err == nil && role != nil {
		err = role(ctx, c)
	} else if err == nil {
		err = fmt.Errorf("no such role: %q", c.Role)
	}
	if err != nil {
		c.tell(report{Error: err.Error()})
		return 1
	}
	return 0
}

func (c *client) tell(r report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Settled, r.Statements = int(c.settled.Load()), c.tracer.n.Load()-c.began
	_ = c.out.Encode(r) // a parent that has ended closes our input, too
}

// start reports that the child is ready and waits for the parent's signal. The context that
// it returns ends when the parent wants the child to stop, or has itself ended.
func (c *client) start(ctx context.Context) (context.Context, error) {
	c.tell(report{Ready: true})
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("the parent has gone: %w", err)
	}
	c.began = c.tracer.n.Load()
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	go c.keepTelling(ctx)
	return ctx, nil
}

// add records that n more messages are done. The end of the backlog is reported at once.
func (c *client) add(n int) {
	if all := c.settled.Add(int64(n)); c.Messages > 0 && all >= int64(c.Messages) {
		c.ended()
	}
}

// keepTelling reports progress.
func (c *client) keepTelling(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.tell(report{})
		case <-ctx.Done():
			return
		}
	}
}

// open opens what every job needs, the pool with its statements counted.
func (c *client) open(ctx context.Context) (*pgxpool.Pool, *publisher, error) {
	pool, err := openPool(ctx, c.Postgres, c.Connections, &c.tracer)
	if err != nil {
		return nil, nil, err
	}
	pub, err := c.To.open(ctx)
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return pool, pub, nil
}
