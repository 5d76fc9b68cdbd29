package service

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/traffic"
)

// trafficRecorder records the traffic of a service. A nil one records nothing.
type trafficRecorder struct {
	*traffic.Recorder
	store any
	node  atomic.Pointer[string] // of the relay; nil without one
}

// newRecorder returns the recorder of a service, nil if there is to be none, and makes it receive the events of
// cfg's observer, too.
func newRecorder(store any, cfg *Config) (*trafficRecorder, error) {
	keeps, ok := store.(traffic.Store)
	if !ok || cfg.DisableTraffic {
		return nil, nil
	}
	r := &trafficRecorder{store: store}
	own := firstObserver(cfg.Observer, observe.LogTo(slog.Default()))
	var err error
	if r.Recorder, err = traffic.New(keeps, traffic.Config{Backlog: r.backlog, Observer: own}); err != nil {
		return nil, err
	}
	cfg.Observer = observe.Observers(own, r)
	return r, nil
}

// counted returns an observer of a part of the service: own, or the service's if own is nil, and the recorder.
func (s *Service[Tx]) counted(own observe.Observer) observe.Observer {
	if own == nil || s.recorder == nil {
		return firstObserver(own, s.cfg.Observer)
	}
	return observe.Observers(own, s.recorder)
}

// consumerConfig fills in the empty fields of a consumer's configuration.
func (s *Service[Tx]) consumerConfig(c consumer.Config) consumer.Config {
	c.Observer = s.counted(firstObserver(c.Observer, s.cfg.Consumer.Observer))
	return s.cfg.consumer(c)
}

// begin begins to record, and returns what ends it. The end of ctx does not: what is in flight then is still
// counted.
func (r *trafficRecorder) begin(ctx context.Context) (stop func()) {
	if r == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.Run(ctx) // it returns nil
	}()
	return func() {
		cancel()
		<-done
	}
}

// backlog adds what waits in the outbox, if this process is to report it: of all relays the first does.
func (r *trafficRecorder) backlog(ctx context.Context, i *traffic.Interval) error {
	node := r.node.Load()
	outboxes, ok := r.store.(inspect.Outbox)
	if node == nil || !ok {
		return nil
	}
	if relays, ok := r.store.(inspect.Relays); ok {
		states, err := relays.RelayStates(ctx)
		if err != nil || firstAlive(states) != *node {
			return err
		}
	}
	stats, err := outboxes.OutboxBacklog(ctx)
	if err != nil {
		return err
	}
	setBacklog(i, stats)
	return nil
}

// firstAlive returns the name of the first relay that is alive, "" if none is.
func firstAlive(states []inspect.RelayState) string {
	n := slices.IndexFunc(states, func(s inspect.RelayState) bool { return s.Alive && s.Node != "" })
	if n < 0 {
		return ""
	}
	return states[n].Node
}

// setBacklog adds the backlog of each topic, of which stats has a row for each status.
func setBacklog(i *traffic.Interval, stats []inspect.Stats) {
	type waiting struct {
		messages int64
		oldest   time.Duration
	}
	topics := make(map[string]waiting)
	for _, s := range stats {
		w := topics[s.Topic]
		topics[s.Topic] = waiting{w.messages + s.Count, max(w.oldest, s.Oldest)}
	}
	for topic, w := range topics {
		i.SetBacklog(topic, w.messages, w.oldest)
	}
}
