package traffic

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/report"
	"github.com/waybill-go/waybill/observe"
)

// Config configures a [Recorder]. The zero value stands for the defaults.
type Config struct {
	// Backlog adds what waits in the outbox, by topic, to an interval, with [Interval.SetBacklog]. It is called
	// once a minute, and less often if it takes long: at most a fiftieth of the time is spent in it.
	// Optional; the default records no backlog.
	Backlog func(ctx context.Context, i *Interval) error

	// Observer receives failures to record: [observe.OpLoop]. Optional; the default logs to slog.Default.
	Observer observe.Observer
}

const (
	callTimeout   = 5 * time.Second // of a call to the store
	stopTimeout   = 2 * time.Second // of recording what is left at the end
	rollUpTimeout = 5 * time.Minute
	spread        = 5 * time.Second // within which processes record the same minute
	maxPending    = 180             // rows that wait for the store: three hours of an outage

	rollUpInterval = time.Hour
	backlogShare   = 50 // of the time; see Config.Backlog
)

// Recorder counts the events that it receives, and records them in a store. It is safe for concurrent use.
type Recorder struct {
	store Store
	cfg   Config
	name  string // of the writer in rows

	mu      sync.Mutex
	current Interval

	// Of the goroutine of Run.
	pending     []Row
	rollUpAt    time.Time
	backlogFrom time.Time // when the backlog is read next, at the earliest
}

var _ observe.Observer = (*Recorder)(nil)

// New returns a recorder that records in store when it is run. The error is an [*waybill.InvalidError].
func New(store Store, cfg Config) (*Recorder, error) {
	if store == nil {
		return nil, &waybill.InvalidError{Field: "store", Reason: "is required"}
	}
	if cfg.Observer == nil {
		cfg.Observer = observe.LogTo(slog.Default())
	}
	return &Recorder{store: store, cfg: cfg, name: waybill.NewID()}, nil
}

// Start implements [observe.Observer]. It counts what is published.
func (r *Recorder) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	if op != observe.OpPublish {
		return ctx, func(error) {}
	}
	return ctx, func(err error) { r.published(observe.NameFrom(ctx), msgs, err) }
}

func (r *Recorder) published(relay string, msgs []*waybill.Message, err error) {
	var batch observe.BatchError
	each := errors.As(err, &batch) && len(batch) == len(msgs)
	topics := make(map[string]*Counts)
	for i, m := range msgs {
		failure := err
		if each {
			failure = batch[i]
		}
		if attempted(failure) {
			topic := report.Label(m.Address())
			if topics[topic] == nil {
				topics[topic] = &Counts{}
			}
			topics[topic].published(m, failure)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for topic, c := range topics {
		r.current.count(topic, "", relay, *c)
	}
}

// attempted reports whether an attempt with this result counts as one: during an outage nothing is attempted.
func attempted(err error) bool {
	if err == nil {
		return true
	}
	kind := waybill.KindOf(err)
	return kind != waybill.Unavailable && kind != waybill.Conflict
}

func (c *Counts) published(m *waybill.Message, err error) {
	if err != nil {
		c.Failed++
		return
	}
	c.Published++
	c.PublishLag.add(report.Age(m))
}

// Observe implements [observe.Observer].
func (r *Recorder) Observe(_ context.Context, e observe.Event) {
	counts, counted := countsOf(e)
	if !counted {
		return
	}
	relay := e.Name
	if e.Op == observe.OpEnqueue || e.Consumer != "" {
		relay = ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.count(report.Label(e.Topic), e.Consumer, relay, counts)
}

// countsOf returns what an event adds, and false if it is not counted.
func countsOf(e observe.Event) (c Counts, counted bool) {
	n := int64(e.Count)
	switch e.Op {
	case observe.OpEnqueue:
		c.Enqueued = n
		return c, e.Err == nil
	case observe.OpHandle:
		if e.Err != nil {
			c.Failed = n
			return c, attempted(e.Err)
		}
		c.Handled = n
		c.HandleLag.add(e.Age)
	case observe.OpRetry:
		c.Retried = n
	case observe.OpDead, observe.OpFailed:
		c.Dead = n
	default:
		return c, false
	}
	return c, true
}

// count adds figures to those of a topic, and to those of a consumer or relay that has a name.
func (i *Interval) count(topic, consumer, relay string, c Counts) {
	add := func(to *Counts) { to.Merge(c) }
	change(&i.Topics, topic, add)
	if consumer != "" {
		change(&i.Consumers, consumer, add)
	}
	if relay != "" {
		change(&i.Relays, relay, add)
	}
}

// SetBacklog records how many messages of a topic are pending or waiting, and the age of the oldest.
func (i *Interval) SetBacklog(topic string, messages int64, oldest time.Duration) {
	change(&i.Topics, report.Label(topic), func(c *Counts) { c.Merge(Counts{Backlog: messages, Oldest: oldest}) })
}

// Run records a row for each minute in which anything was counted, until ctx is done, and then what is left.
// An error of the store is observed; what it did not take is recorded later, for up to three hours. It
// returns nil. A recorder runs once.
func (r *Recorder) Run(ctx context.Context) error {
	r.rollUpAt = time.Now().Add(rand.N(rollUpInterval))
	l := &loop.Loop{Name: "traffic", Observer: r.cfg.Observer}
	minute := time.Now().Truncate(Minute)
	l.Run(ctx, func(ctx context.Context) error {
		next := minute.Add(Minute)
		loop.Sleep(ctx, time.Until(next))
		if ctx.Err() != nil {
			return nil
		}
		r.cut(ctx, minute)
		if minute = next; time.Since(minute) >= Minute {
			minute = time.Now().Truncate(Minute)
		}
		loop.Sleep(ctx, rand.N(spread))
		return r.record(ctx)
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	r.cut(ctx, minute)
	if err := r.flush(ctx); err != nil {
		r.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpLoop, Name: l.Name, Loop: l.Name, Err: err})
	}
	return nil
}

// cut ends an interval. Its row waits for the store.
func (r *Recorder) cut(ctx context.Context, minute time.Time) {
	r.mu.Lock()
	counted := r.current
	r.current = Interval{}
	r.mu.Unlock()
	r.readBacklog(ctx, &counted)
	if counted.empty() {
		return
	}
	data, err := counted.Encode()
	if err != nil { // cannot happen: an interval has names and numbers
		return
	}
	if len(r.pending) == maxPending {
		r.pending = r.pending[1:]
	}
	r.pending = append(r.pending, Row{Step: Minute, At: minute.UTC(), Writer: r.name, Data: data})
}

// readBacklog adds the backlog to an interval. A failure leaves it out.
func (r *Recorder) readBacklog(ctx context.Context, i *Interval) {
	began := time.Now()
	if r.cfg.Backlog == nil || began.Before(r.backlogFrom) || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_ = r.cfg.Backlog(ctx, i) // the store does not answer: writing the row reports that
	r.backlogFrom = began.Add(backlogShare * time.Since(began))
}

// record records what is pending, and rolls up when it is due.
func (r *Recorder) record(ctx context.Context) error {
	if err := r.flush(ctx); err != nil {
		return err
	}
	now := time.Now()
	if now.Before(r.rollUpAt) {
		return nil
	}
	r.rollUpAt = now.Add(rollUpInterval)
	ctx, cancel := context.WithTimeout(ctx, rollUpTimeout)
	defer cancel()
	return RollUp(ctx, r.store, now)
}

// flush adds the rows that wait, oldest first. What fails stays and is repeated as it is, so that it counts once.
func (r *Recorder) flush(ctx context.Context) error {
	for len(r.pending) > 0 {
		if err := r.addRow(ctx, r.pending[0]); err != nil {
			return err
		}
		r.pending = r.pending[1:]
	}
	return nil
}

func (r *Recorder) addRow(ctx context.Context, row Row) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.AddTraffic(ctx, row)
}
