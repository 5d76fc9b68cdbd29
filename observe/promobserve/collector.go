package promobserve

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// Backlog counts what is to be published. Every store of the project implements it.
type Backlog interface {
	// OutboxBacklog is as for an [inspect.Outbox].
	OutboxBacklog(ctx context.Context) ([]inspect.Stats, error)
}

// DeadLetters groups the open dead letters. Every store of the project implements it.
type DeadLetters interface {
	// DeadLetterGroups is as for a [deadletter.Store].
	DeadLetterGroups(ctx context.Context, limit int) ([]deadletter.Group, error)
}

// Inbox knows how much it holds. Every store of the project implements it, as far as that is cheap.
type Inbox interface {
	// InboxSize is as for an [inspect.InboxSizer].
	InboxSize(ctx context.Context) (inspect.InboxSize, error)
}

// Schedules counts what is scheduled. Every store that keeps schedules implements it.
type Schedules interface {
	// ScheduleStats is as for a [schedule.Inspector].
	ScheduleStats(ctx context.Context) (schedule.Stats, error)
}

// Sagas counts instances of sagas. Stores that keep sagas implement it.
type Sagas interface {
	// SagaCounts is as for a [saga.Inspector].
	SagaCounts(ctx context.Context) ([]saga.Count, error)
}

// Upkeep knows what keeps a database from removing dead rows. That of a PostgreSQL store is its Admin.
type Upkeep interface {
	// OutboxUpkeep is that of a pgadmin.Admin.
	OutboxUpkeep(ctx context.Context) (inspect.Upkeep, error)
}

// CollectorConfig says what a collector reads. Fields that are nil are left out.
type CollectorConfig struct {
	// Relay returns the state of a relay and whether there is one: RelayStatus of a
	// service.Service, or a function around Status of a [relay.Relay]. For several relays in one
	// process use several collectors, with a label each. Optional.
	Relay func() (relay.Status, bool)

	// Backlog is asked for the backlog. Optional.
	Backlog Backlog

	// DeadLetters is asked for the 100 largest groups of open dead letters. Optional.
	DeadLetters DeadLetters

	// Inbox is asked how much it holds. Optional.
	Inbox Inbox

	// Schedules is asked for what is scheduled. Optional.
	Schedules Schedules

	// Sagas is asked for the instances of sagas. Optional.
	Sagas Sagas

	// Upkeep is asked for dead rows, and what keeps them. Optional.
	Upkeep Upkeep

	// Lag returns the backlog at the broker for each consumer, by name: ConsumerLag of a
	// service.Service, or a function around Lag of consumers. Optional.
	Lag func(ctx context.Context) (map[string]contract.Lag, error)

	// Clock returns the time by the database's clock, as Facts of a pgstore.Store does.
	// Optional.
	Clock func(ctx context.Context) (time.Time, error)

	// CacheFor is how long answers of a store are cached. A slow answer is cached for twenty times as
	// long as it took. Optional; the default is 5 s.
	CacheFor time.Duration

	// Timeout is how long the store may take to answer. A scrape waits for half a second at most, and
	// returns what is known by then. Optional; the default is 10 s.
	Timeout time.Duration
}

const (
	scrapePatience = 500 * time.Millisecond
	costShare      = 20          // queries take no more than this fraction of the time
	forgetAfter    = time.Minute // an answer, after its cache time: old figures mislead
	largestGroups  = 100
)

// Collector exports the state of a relay and a store. It is safe for concurrent use, runs one query
// of the store at a time, and queries no more often than it is configured to.
type Collector struct {
	cfg       CollectorConfig
	questions []*question
	errors    *prometheus.CounterVec

	mu    sync.Mutex
	due   time.Time
	under chan struct{} // closed when the running queries have ended; nil if none run
}

var _ prometheus.Collector = (*Collector)(nil)

// question is one query of a store, with its last answer. The collector's mutex guards the answer.
type question struct {
	what     string
	ask      func(ctx context.Context) ([]prometheus.Metric, error)
	answer   []prometheus.Metric
	answered time.Time
	goodFor  time.Duration
}

// NewCollector returns a collector, to be registered once.
func NewCollector(cfg CollectorConfig) *Collector {
	if cfg.CacheFor <= 0 {
		cfg.CacheFor = 5 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	c := &Collector{cfg: cfg, errors: prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "store_read_errors_total", Help: "Times that a store did not answer the collector.",
	}, []string{"what"})}
	c.add("backlog", cfg.Backlog != nil, c.backlog)
	c.add("dead_letters", cfg.DeadLetters != nil, c.deadLetters)
	c.add("inbox", cfg.Inbox != nil, c.inbox)
	c.add("schedules", cfg.Schedules != nil, c.schedules)
	c.add("sagas", cfg.Sagas != nil, c.sagas)
	c.add("upkeep", cfg.Upkeep != nil, c.upkeep)
	c.add("lag", cfg.Lag != nil, c.lag)
	c.add("clock", cfg.Clock != nil, c.clock)
	return c
}

func (c *Collector) add(what string, wanted bool, ask func(context.Context) ([]prometheus.Metric, error)) {
	if wanted {
		c.questions = append(c.questions, &question{what: what, ask: ask})
		c.errors.WithLabelValues(what)
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	c.errors.Describe(ch)
	for _, d := range descriptions {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	if c.cfg.Relay != nil {
		if s, ok := c.cfg.Relay(); ok {
			collectRelay(ch, s)
		}
	}
	c.refresh()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.questions {
		if age := time.Since(q.answered); age < q.goodFor+forgetAfter {
			for _, m := range q.answer {
				ch <- m
			}
			ch <- gauge(storeReadAge, age.Seconds(), q.what)
		}
	}
	c.errors.Collect(ch)
}

// refresh starts the queries that are due, and waits a little for the answers.
func (c *Collector) refresh() {
	c.mu.Lock()
	if len(c.questions) > 0 && c.under == nil && !time.Now().Before(c.due) {
		c.under = make(chan struct{})
		go c.read(c.under)
	}
	under := c.under
	c.mu.Unlock()
	if under == nil {
		return
	}
	patience := time.NewTimer(scrapePatience)
	defer patience.Stop()
	select {
	case <-under:
	case <-patience.C:
	}
}

// read runs all queries and closes done.
func (c *Collector) read(done chan struct{}) {
	began := time.Now()
	for _, q := range c.questions {
		ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
		answer, err := q.ask(ctx)
		cancel()
		if err != nil {
			c.errors.WithLabelValues(q.what).Inc()
			continue
		}
		c.mu.Lock()
		q.answer, q.answered, q.goodFor = answer, time.Now(), c.goodFor(began)
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.due = time.Now().Add(c.goodFor(began))
	c.under = nil
	close(done)
}

// goodFor returns how long to wait before the store is queried again.
func (c *Collector) goodFor(began time.Time) time.Duration {
	return max(c.cfg.CacheFor, costShare*time.Since(began))
}
