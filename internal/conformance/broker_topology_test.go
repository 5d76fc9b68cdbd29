package conformance

import (
	"database/sql"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// TestExplain_Live reads settings from servers of other kinds than TestExplain of package cli.
func TestExplain_Live(t *testing.T) {
	t.Parallel()
	has := func(facts []guarantee.Fact, err error, setting string, values ...string) {
		t.Helper()
		if err != nil || !slices.ContainsFunc(facts, func(f guarantee.Fact) bool { return f.Setting == setting && slices.Contains(values, f.Value) }) {
			t.Errorf("Explain() = %+v, %v, want %s: %v", facts, err, setting, values)
		}
	}
	db, err := sql.Open("mysql", mysqlURL())
	must(t, err)
	t.Cleanup(func() { db.Close() })
	store, err := mysqlstore.New(db, mysqlstore.Config{})
	must(t, err)
	facts, err := store.Explain(t.Context())
	has(facts, err, "innodb_flush_log_at_trx_commit", "0", "1", "2", "3")

	cfg := natsConfig(t, natsURL(t))
	cfg.DuplicateWindow = 3 * time.Minute
	facts, err = natsOpen(t, cfg).Explain(t.Context(), "orders")
	has(facts, err, "duplicate_window", "3m0s")
	has(facts, err, "sync_interval", "")
}

// topologyNames are things of one test, on a server that others share.
type topologyNames struct{ topic, group, to, foreign string }

func newTopologyNames() topologyNames {
	id := waybill.NewID()
	return topologyNames{"t-" + id, "g-" + id, "to-" + id, "foreign-" + id}
}

func (n topologyNames) wanted() broker.Wanted {
	return broker.Wanted{
		Topics:        []string{n.topic},
		Destinations:  []string{n.to},
		Subscriptions: []consumer.Subscription{{Group: n.group, Topics: []string{n.topic}}},
	}
}

// wantActions plans or applies and compares what comes out, in order.
func wantActions(t *testing.T, what string, steps []broker.Step, err error, want ...broker.Action) {
	t.Helper()
	var got []broker.Action
	for _, s := range steps {
		got = append(got, s.Action)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("%s: %+v, %v, want the actions %v", what, steps, err, want)
	}
}

// exists reports whether a queue is there, and how many messages are ready in it.
func (r *rabbit) exists(t *testing.T, queue string) (bool, int) {
	t.Helper()
	ch, err := r.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
	return err == nil, q.Messages
}

// TestRabbitPlanChangesNothing (AS-62): a plan shows what is missing and makes none of it; Apply makes
// it, and finds nothing to make the second time.
func TestRabbitPlanChangesNothing(t *testing.T) {
	t.Parallel()
	r, n := newRabbit(t), newTopologyNames()
	r.note(n.group)
	r.note(n.to)
	b := r.open(t, rabbitbroker.Config{DeclareNothing: true})
	t.Cleanup(func() { b.Close() })
	for range 2 { // if the first had made something, the second would see it
		steps, err := b.Plan(t.Context(), n.wanted())
		wantActions(t, "Plan()", steps, err, broker.Create, broker.Create, broker.Create, broker.Create)
	}
	if there, _ := r.exists(t, n.group); there {
		t.Fatal("a plan has made a queue")
	}
	steps, err := b.Apply(t.Context(), n.wanted())
	wantActions(t, "Apply()", steps, err, broker.Create, broker.Create, broker.Create, broker.Create)
	r.publish(t, r.exchange, n.topic, amqp.Publishing{Body: []byte("1")})
	steps, err = b.Apply(t.Context(), n.wanted())
	wantActions(t, "second Apply()", steps, err, broker.Keep, broker.Keep, broker.Keep, broker.Ensure)
	if there, ready := r.exists(t, n.group); !there || ready != 1 {
		t.Errorf("queue %s: there %v with %d messages, want the one that was published", n.group, there, ready)
	}
}

// TestRabbitPlanConflict (AS-62): what exists and is made otherwise is reported, stays as it is, and does
// not keep the rest from being made.
func TestRabbitPlanConflict(t *testing.T) {
	t.Parallel()
	r, n := newRabbit(t), newTopologyNames()
	for _, queue := range []string{n.group, n.to, n.foreign} {
		r.note(queue)
	}
	b := r.open(t, rabbitbroker.Config{})
	t.Cleanup(func() { b.Close() })
	ch := r.channel(t)
	for _, queue := range []string{n.group, n.foreign} {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int32(5)}); err != nil {
			t.Fatal(err)
		}
	}
	r.publish(t, "", n.group, amqp.Publishing{Body: []byte("1")})
	want := []broker.Action{broker.Keep, broker.Create, broker.Conflict, broker.Conflict}
	steps, err := b.Plan(t.Context(), n.wanted())
	wantActions(t, "Plan()", steps, err, want...)
	steps, err = b.Apply(t.Context(), n.wanted())
	wantActions(t, "Apply()", steps, err, want...)
	if there, ready := r.exists(t, n.group); !there || ready != 1 {
		t.Errorf("queue in conflict: there %v with %d messages, want it as it was", there, ready)
	}
	for _, queue := range []string{n.to, n.foreign} {
		if there, _ := r.exists(t, queue); !there {
			t.Errorf("queue %s is not there", queue)
		}
	}
}

// TestRabbitTopology_DeclareNothing: a program without the right to declare works with what Apply
// has made, and says so where something is missing.
func TestRabbitTopology_DeclareNothing(t *testing.T) {
	t.Parallel()
	f := newRabbitFault(t, rabbitbroker.Config{})
	n := newTopologyNames()
	f.note(n.group)
	b := f.open(t, rabbitbroker.Config{DeclareNothing: true})
	t.Cleanup(func() { b.Close() })
	s := consumer.Subscription{Group: n.group, Topics: []string{f.topic}}
	err := b.Subscriber(s).Subscribe(t.Context(), 1, func(contract.Delivery) {})
	if !waybill.IsUnavailable(err) {
		t.Fatalf("Subscribe() = %v without a queue, want unavailable", err)
	}
	if _, err := b.Apply(t.Context(), broker.Wanted{Subscriptions: []consumer.Subscription{s}}); err != nil {
		t.Fatal(err)
	}
	got, _ := f.subscribe(b, s, 1)
	f.all("accepted", f.send(patience, 1)(), accepted)
	f.next(got)
}

func natsPlanner(t *testing.T) (natsbroker.Config, *natsbroker.Broker, jetstream.JetStream) {
	t.Helper()
	cfg := natsConfig(t, natsURL(t))
	cfg.DeclareNothing = true
	nc, js := natsClient(t, cfg.URL)
	t.Cleanup(nc.Close)
	return cfg, natsOpen(t, cfg), js
}

// TestNATSPlanChangesNothing (AS-62): a topology plan shows the difference and changes nothing; conflicts are
// reported.
func TestNATSPlanChangesNothing(t *testing.T) {
	t.Parallel()
	cfg, b, js := natsPlanner(t)
	n := newTopologyNames()
	for range 2 {
		steps, err := b.Plan(t.Context(), n.wanted())
		wantActions(t, "Plan()", steps, err, broker.Create, broker.Create, broker.Create)
	}
	if _, err := js.Stream(t.Context(), cfg.Stream); err == nil {
		t.Fatal("a plan has made a stream")
	}
	steps, err := b.Apply(t.Context(), n.wanted())
	wantActions(t, "Apply()", steps, err, broker.Create, broker.Create, broker.Create)
	natsMustSend(t, b, natsMessages(n.topic, 1, 1))
	steps, err = b.Apply(t.Context(), n.wanted())
	wantActions(t, "second Apply()", steps, err, broker.Keep, broker.Keep, broker.Keep)
	got, _ := natsSubscribe(t, b, n.wanted().Subscriptions[0])
	natsExpect(t, got, "1")
}

// TestNATSPlanConflict (AS-62) changes what Apply has made, and finds the changes reported and kept.
func TestNATSPlanConflict(t *testing.T) {
	t.Parallel()
	cfg, b, js := natsPlanner(t)
	n := newTopologyNames()
	if _, err := b.Apply(t.Context(), n.wanted()); err != nil {
		t.Fatal(err)
	}
	names := natsConsumers(t, js, cfg.Stream)
	natsDeleteConsumer(t, js, cfg.Stream, names[0])
	foreign := jetstream.ConsumerConfig{Durable: names[0], AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: 3}
	if _, err := js.CreateConsumer(t.Context(), cfg.Stream, foreign); err != nil {
		t.Fatal(err)
	}
	steps, err := b.Apply(t.Context(), n.wanted())
	wantActions(t, "Apply() with another's consumer", steps, err, broker.Keep, broker.Conflict, broker.Keep)
	if got := natsConsumers(t, js, cfg.Stream); !slices.Equal(got, names) {
		t.Errorf("consumers %v, want %v as before", got, names)
	}

	cfg.MaxAge = natsbroker.KeepForever
	steps, err = natsOpen(t, cfg).Apply(t.Context(), n.wanted())
	wantActions(t, "Apply() with another max_age", steps, err, broker.Conflict, broker.Conflict, broker.Conflict)
}

// TestNATSTopology_AckWait: a program that declares nothing takes a longer AckWait as it is, and
// refuses one under which its deliveries would lapse.
func TestNATSTopology_AckWait(t *testing.T) {
	t.Parallel()
	cfg, b, js := natsPlanner(t)
	n := newTopologyNames()
	if _, err := b.Apply(t.Context(), n.wanted()); err != nil {
		t.Fatal(err)
	}
	s, made := n.wanted().Subscriptions[0], cfg.AckWait
	cfg.AckWait = made + time.Second
	err := natsOpen(t, cfg).Subscriber(s).Subscribe(t.Context(), 10, func(contract.Delivery) {})
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "natsbroker.AckWait" {
		t.Errorf("Subscribe() = %v with a longer AckWait than the server's, want an error about it", err)
	}
	cfg.AckWait = made - time.Millisecond
	b = natsOpen(t, cfg)
	got, _ := natsSubscribe(t, b, s)
	natsMustSend(t, b, natsMessages(n.topic, 1, 1))
	natsExpect(t, got, "1")
	for _, name := range natsConsumers(t, js, cfg.Stream) {
		c, err := js.Consumer(t.Context(), cfg.Stream, name)
		if err != nil {
			t.Fatal(err)
		}
		if wait := c.CachedInfo().Config.AckWait; wait != made {
			t.Errorf("the durable consumer has an AckWait of %v, want %v as it was made", wait, made)
		}
	}
}

// TestNATSPlanSubjects (AS-62): a stream that lacks our subjects gets them, unless another has part of
// them.
func TestNATSPlanSubjects(t *testing.T) {
	t.Parallel()
	cfg, b, js := natsPlanner(t)
	others := jetstream.StreamConfig{Name: cfg.Stream, Subjects: []string{"other-" + cfg.Stream}}
	if _, err := js.CreateStream(t.Context(), others); err != nil {
		t.Fatal(err)
	}
	for _, want := range []broker.Action{broker.Add, broker.Keep} {
		steps, err := b.Apply(t.Context(), broker.Wanted{})
		wantActions(t, "Apply()", steps, err, want)
	}
	natsMustSend(t, b, natsMessages("t", 1, 1))

	second := cfg
	second.Stream = cfg.Stream + "-2"
	steps, err := natsOpen(t, second).Apply(t.Context(), newTopologyNames().wanted())
	wantActions(t, "Apply() of a second stream", steps, err, broker.Conflict, broker.Conflict, broker.Conflict)
}
