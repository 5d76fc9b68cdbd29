package promobserve

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/request"
)

// Config configures an [Observer].
type Config struct {
	// MaxLabelValues is how many different topics, and how many types, become label values. Later ones
	// are counted together, as "other": types, and addresses to send to, may be chosen by other
	// programs. Optional; the default is 200.
	MaxLabelValues int
}

const defaultMaxLabelValues = 200

// Observer counts the events that it receives. It is a [prometheus.Collector], to be registered once, and
// safe for concurrent use.
type Observer struct {
	m      *metrics
	topics *limited
	types  *limited
}

var (
	_ observe.Observer     = (*Observer)(nil)
	_ prometheus.Collector = (*Observer)(nil)
)

// New returns an observer.
func New(cfg Config) *Observer {
	if cfg.MaxLabelValues <= 0 {
		cfg.MaxLabelValues = defaultMaxLabelValues
	}
	return &Observer{m: newMetrics(), topics: newLimited(cfg.MaxLabelValues), types: newLimited(cfg.MaxLabelValues)}
}

// Describe implements [prometheus.Collector].
func (o *Observer) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range o.m.all() {
		c.Describe(ch)
	}
}

// Collect implements [prometheus.Collector].
func (o *Observer) Collect(ch chan<- prometheus.Metric) {
	for _, c := range o.m.all() {
		c.Collect(ch)
	}
}

// topic returns the label value for an address.
func (o *Observer) topic(address string) string { return o.topics.value(request.Label(address)) }

// sent is the data of a message that is needed at the end of an operation.
type sent struct {
	topic string
	time  time.Time
}

// Start implements [observe.Observer]. It records how old messages are when they are published and
// handled, and which attempts fail.
func (o *Observer) Start(ctx context.Context, op observe.Op, msgs ...*waybill.Message) (context.Context, func(error)) {
	switch op {
	case observe.OpPublish:
		list := make([]sent, len(msgs))
		for i, m := range msgs {
			list[i] = sent{o.topic(m.Address()), m.Time}
		}
		return ctx, func(err error) { o.published(list, err) }
	case observe.OpHandle:
		for _, m := range msgs {
			o.m.handleAge.WithLabelValues(observe.NameFrom(ctx), o.topic(m.Address())).Observe(age(m.Time))
		}
	}
	return ctx, func(error) {}
}

func (o *Observer) published(list []sent, err error) {
	var batch observe.BatchError
	each := errors.As(err, &batch) && len(batch) == len(list)
	for i, s := range list {
		failure := err
		if each {
			failure = batch[i]
		}
		if failure != nil {
			o.m.publishFailures.WithLabelValues(s.topic, waybill.KindOf(failure).String()).Inc()
		} else {
			o.m.publishAge.WithLabelValues(s.topic).Observe(age(s.time))
		}
	}
}

// age returns the time since an event, in seconds. The clock of the program that produced it may be
// ahead of ours.
func age(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return max(0, time.Since(t).Seconds())
}

// Observe implements [observe.Observer].
func (o *Observer) Observe(_ context.Context, e observe.Event) {
	e.Topic, e.Type = o.topic(e.Topic), o.types.value(e.Type)
	switch e.Op {
	case observe.OpEnqueue, observe.OpPublish, observe.OpHandle, observe.OpDuplicate, observe.OpConflict, observe.OpBusy, observe.OpUnleased:
		o.flow(e)
	case observe.OpRetry, observe.OpDead, observe.OpFailed, observe.OpRequeue, observe.OpRepeat:
		o.trouble(e)
	case observe.OpClaim, observe.OpSettle, observe.OpPause, observe.OpLeaseLost, observe.OpOvertaken, observe.OpDedupExpired:
		o.relayed(e)
	case observe.OpCleanup, observe.OpAddPartitions, observe.OpDropPartitions, observe.OpLoop:
		o.kept(e)
	case observe.OpFire:
		o.m.scheduleLateness.WithLabelValues(e.Topic).Observe(max(0, e.Delay.Seconds()))
	case observe.OpSkip:
		o.m.scheduleSkipped.WithLabelValues(e.Topic).Add(float64(e.Count))
	case observe.OpLateReply:
		o.m.lateReplies.WithLabelValues(e.Name).Add(float64(e.Count))
	case observe.OpSaga:
		o.m.sagaChanges.WithLabelValues(e.Name, e.Status).Inc()
	case observe.OpIgnore:
		o.m.sagaIgnored.WithLabelValues(e.Name, e.Status).Inc()
	case observe.OpServe:
		o.m.inboxRequests.WithLabelValues(e.Operation, e.Status).Inc()
		o.m.inboxDuration.WithLabelValues(e.Operation).Observe(e.Duration.Seconds())
	}
}

// flow counts messages that make progress.
func (o *Observer) flow(e observe.Event) {
	switch n := float64(e.Count); {
	case e.Op == observe.OpEnqueue && e.Err != nil:
		o.m.enqueueErrors.WithLabelValues(kind(e.Err)).Inc()
	case e.Op == observe.OpEnqueue:
		o.m.enqueued.WithLabelValues(e.Topic, e.Type).Add(n)
		if e.Duration > 0 {
			o.m.enqueueDuration.WithLabelValues().Observe(e.Duration.Seconds())
		}
	case e.Op == observe.OpPublish:
		o.m.published.WithLabelValues(e.Destination, e.Topic, e.Type).Add(n)
		o.m.publishDuration.WithLabelValues(e.Destination, e.Topic).Observe(e.Duration.Seconds())
	case e.Op == observe.OpHandle:
		o.m.handleDuration.WithLabelValues(e.Consumer, e.Topic, result(e.Err)).Observe(e.Duration.Seconds())
	case e.Op == observe.OpDuplicate && e.Consumer == "":
		o.m.enqueueDuplicates.WithLabelValues(e.Topic, e.Type).Add(n)
	case e.Op == observe.OpDuplicate:
		o.m.duplicates.WithLabelValues(e.Consumer, e.Topic).Add(n)
	case e.Op == observe.OpConflict:
		o.m.conflicts.WithLabelValues(e.Consumer, e.Topic).Add(n)
	case e.Op == observe.OpBusy:
		o.m.busy.WithLabelValues(e.Consumer, e.Topic).Add(n)
	case e.Op == observe.OpUnleased:
		o.m.unleased.WithLabelValues(e.Consumer, e.Topic).Add(n)
	}
}

// trouble counts messages that fail.
func (o *Observer) trouble(e observe.Event) {
	n := float64(e.Count)
	switch e.Op {
	case observe.OpRetry:
		o.m.retried.WithLabelValues(e.Consumer, e.Destination, e.Topic, kind(e.Err)).Add(n)
	case observe.OpDead:
		o.m.dead.WithLabelValues(e.Consumer, e.Destination, e.Topic, string(e.Reason)).Add(n)
	case observe.OpFailed:
		o.m.failed.WithLabelValues(e.Consumer, e.Destination, e.Topic, string(e.Reason)).Add(n)
	case observe.OpRequeue:
		o.m.requeued.WithLabelValues(e.Consumer, result(e.Err)).Add(n)
	case observe.OpRepeat:
		o.m.repeats.WithLabelValues(e.Consumer).Inc()
	}
}

// relayed counts the events of relays, mostly.
func (o *Observer) relayed(e observe.Event) {
	switch {
	case e.Op == observe.OpClaim:
		o.m.claimDuration.WithLabelValues().Observe(e.Duration.Seconds())
		o.m.claimMessages.WithLabelValues().Observe(float64(e.Count))
	case e.Op == observe.OpSettle && e.Err != nil:
		o.m.settleErrors.WithLabelValues(e.Consumer).Inc()
	case e.Op == observe.OpSettle:
		o.m.settleDuration.WithLabelValues().Observe(e.Duration.Seconds())
	case e.Op == observe.OpPause:
		o.m.pauses.WithLabelValues(e.Consumer, e.Destination, e.Topic).Inc()
	case e.Op == observe.OpLeaseLost:
		o.m.leaseLost.WithLabelValues(e.Consumer).Inc()
	case e.Op == observe.OpOvertaken:
		o.m.overtaken.WithLabelValues(e.Destination, e.Topic).Add(float64(e.Count))
	case e.Op == observe.OpDedupExpired:
		o.m.dedupExpired.WithLabelValues(e.Destination, e.Topic).Add(float64(e.Count))
	}
}

// kept counts loop errors and clean-ups.
func (o *Observer) kept(e observe.Event) {
	n := float64(e.Count)
	switch {
	case e.Op == observe.OpLoop && e.Err != nil:
		o.m.loopErrors.WithLabelValues(e.Loop).Inc()
	case e.Op == observe.OpCleanup:
		o.m.cleanedRows.WithLabelValues(rows(e.Name)).Add(n)
		if e.Err != nil {
			o.m.cleanupErrors.WithLabelValues(rows(e.Name)).Inc()
		}
	case e.Op == observe.OpAddPartitions:
		o.m.partitions.WithLabelValues("added").Add(n)
	case e.Op == observe.OpDropPartitions:
		o.m.partitions.WithLabelValues("dropped").Add(n)
	}
}

// rows returns the kind of rows of a clean-up. A relay reports its own name there: it removes rows
// of the archive only.
func rows(name string) string {
	if slices.Contains(cleaned, janitor.Kind(name)) {
		return name
	}
	return string(janitor.Archive)
}

func kind(err error) string { return waybill.KindOf(err).String() }

// result returns the kind of err, or "ok".
func result(err error) string {
	if err == nil {
		return "ok"
	}
	return kind(err)
}
