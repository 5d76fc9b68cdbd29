package e2e

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/saga"
)

// errand is the data of the sagas of these stories: what was done, in its order.
type errand struct {
	Did []string `json:"did"`
}

type (
	errands      = saga.Saga[*sql.Tx, errand]
	errandChange = saga.Context[*sql.Tx, errand]
	errandRule   = saga.Rule[*sql.Tx, errand]
	errandStep   = saga.Step[*sql.Tx, errand]
)

// sagaStore is a store that keeps sagas.
type sagaStore interface {
	opener.SQLStore
	saga.Store[*sql.Tx]
	saga.OperatorStore
}

// office is a database with a saga, and the broker that its messages come from.
type office struct {
	*agenda
	store  sagaStore
	broker *membroker.Broker
	ops    *opCounter
}

// inOffices runs a story on each kind of store that keeps sagas.
func inOffices(t *testing.T, story func(t *testing.T, o *office)) {
	t.Parallel()
	onAgendas(t, func(t *testing.T, a *agenda) { story(t, a.office(t)) })
}

// office returns one with an empty broker and no saga.
func (a *agenda) office(t *testing.T) *office {
	t.Helper()
	b := membroker.New()
	t.Cleanup(func() { b.Close() })
	return &office{a, a.store.(sagaStore), b, newOpCounter()}
}

const (
	errandTopic = "errands"     // of the messages of others
	ownTopic    = "errands.own" // of those that instances send to themselves
)

// errands returns a saga without rules over store.
func (o *office) errands(t *testing.T, store saga.Store[*sql.Tx], lock bool) *errands {
	t.Helper()
	s, err := saga.New[*sql.Tx, errand](store, saga.Config{Name: "errands", Source: "shop", Topic: ownTopic, Lock: lock, Observer: o.ops})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a consumer of a saga until the story ends.
func (o *office) run(t *testing.T, s *errands, cfg consumer.Config) {
	t.Helper()
	topics := consumer.Subscription{Group: "errands", Topics: []string{errandTopic, ownTopic}}
	cfg.Observer, cfg.GiveUp, cfg.AllowShortRetention = o.ops, saga.GivesUp, true
	c, err := consumer.New(o.broker, topics, o.store, s.Handle, quickConsumer(cfg))
	if err != nil {
		t.Fatal(err)
	}
	run(t, t.Context(), c.Run)
	eventually(t, "the queue of the saga is there", func() bool { return c.Health() == nil })
}

// tell publishes a message of a type about an errand, whose id is the type and the key.
func (o *office) tell(t *testing.T, typ, key string) {
	t.Helper()
	id := typ + " " + key
	publish(t, o.broker, waybill.Message{ID: id, Type: typ, Topic: errandTopic, Key: key}, id)
}

// byKey finds the instance by the key of the message.
func byKey(m *waybill.Message) (string, error) { return m.Key, nil }

// doing notes what was done.
func doing(what string) func(context.Context, *errandChange) error {
	return func(_ context.Context, c *errandChange) error {
		c.Data.Did = append(c.Data.Did, what)
		return nil
	}
}

func errandID(key string) saga.ID {
	return saga.ID{Tenant: waybill.DefaultTenant, Saga: "errands", Key: key}
}

// instance returns an instance and its data, empty if there is none.
func (o *office) instance(t *testing.T, key string) (saga.Instance, errand) {
	t.Helper()
	in, err := o.store.Saga(t.Context(), errandID(key))
	if err == waybill.ErrNotFound {
		return in, errand{}
	}
	var data errand
	if err == nil {
		err = json.Unmarshal(in.Data, &data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return in, data
}

// waitStatus waits until an instance has a status, and checks what was done.
func (o *office) waitStatus(t *testing.T, key string, want saga.Status, did ...string) saga.Instance {
	t.Helper()
	eventually(t, key+" is "+string(want), func() bool {
		in, _ := o.instance(t, key)
		return in.Status == want
	})
	in, data := o.instance(t, key)
	if !slices.Equal(data.Did, did) {
		t.Errorf("%s has done %q, want %q", key, data.Did, did)
	}
	return in
}

// letters returns the dead letters.
func (o *office) letters(t *testing.T) []deadletter.Letter {
	t.Helper()
	list, err := o.store.DeadLetters(t.Context(), deadletter.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// noLetters fails if there is a dead letter.
func (o *office) noLetters(t *testing.T) {
	t.Helper()
	for _, l := range o.letters(t) {
		t.Errorf("%s is a dead letter: %s", l.Message.ID, l.Error)
	}
}

// gathering holds up those who come until there are enough of them.
type gathering struct {
	mu      sync.Mutex
	missing int
	met     chan struct{}
}

func newGathering(n int) *gathering { return &gathering{missing: n, met: make(chan struct{})} }

func (m *gathering) wait(ctx context.Context) error {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.met)
	}
	m.mu.Unlock()
	select {
	case <-m.met:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// overtaken is a store whose first writes of instances find that somebody else was first.
type overtaken struct {
	saga.Store[*sql.Tx]
	mu   sync.Mutex
	left int
}

func (o *overtaken) WriteSaga(ctx context.Context, tx *sql.Tx, in *saga.Instance, e saga.Entry) (bool, error) {
	o.mu.Lock()
	o.left--
	late := o.left >= 0
	o.mu.Unlock()
	if late {
		return false, nil
	}
	return o.Store.WriteSaga(ctx, tx, in, e)
}
