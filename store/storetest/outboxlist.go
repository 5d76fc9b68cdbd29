package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
)

func outboxListTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"nothing", listNothing[Tx], nil},
		{"what is in flight", listOnItsWay[Tx], nil},
		{"by every field", listByField[Tx], nil},
		{"by age", listByAge[Tx], nil},
		{"after the clock was set back", listClockSetBack[Tx], nil},
		{"at most the limit", listLimit[Tx], nil},
		{"the latest published first", listPublished[Tx], nil},
		{"a filter that can't be answered", listBadFilter[Tx], nil},
		{"the backlog", backlogCounts[Tx], nil},
	}
}

// wantList checks which messages a filter finds, and in which order.
func (e *env[Tx]) wantList(f inspect.Filter, want ...string) []inspect.MessageState {
	e.Helper()
	list, err := e.s.OutboxMessages(e.ctx, f)
	e.must(err, "OutboxMessages")
	got := make([]string, len(list))
	for i, st := range list {
		got[i] = st.ID
	}
	if !slices.Equal(got, want) || list == nil {
		e.Fatalf("OutboxMessages(%+v) = %v, want %v", f, got, want)
	}
	return list
}

func listNothing[Tx any](e *env[Tx]) { e.wantList(inspect.Filter{}) }

// oneEach enqueues five messages, one after the other, and leaves one in each place.
func (e *env[Tx]) oneEach() {
	e.Helper()
	n := e.join("r1")
	later := msg("scheduled", "")
	later.DeliverAt = time.Now().Add(24 * time.Hour)
	for _, m := range []waybill.Message{later, msg("published", ""), msg("waiting", ""), msg("dead", ""), msg("pending", "")} {
		e.enqueue(m)
		e.advance(time.Minute)
	}
	claims := n.claim()
	n.settle(settlement(find(claims, "scheduled"), contract.Schedule), published(find(claims, "published"))[0],
		failed(find(claims, "waiting"), 10*time.Hour), dead(find(claims, "dead")))
}

func listOnItsWay[Tx any](e *env[Tx]) {
	e.oneEach()
	list := e.wantList(inspect.Filter{}, "scheduled", "waiting", "pending")
	if w := list[1]; w.Status != inspect.Waiting || w.Attempts != 1 || w.Error == "" || w.DueAt == nil || w.EnqueuedAt.IsZero() {
		e.Errorf("the waiting one is %+v", w)
	}
	for _, status := range []inspect.Status{inspect.Pending, inspect.Waiting, inspect.Scheduled} {
		e.wantList(inspect.Filter{Status: status}, map[inspect.Status]string{
			inspect.Pending: "pending", inspect.Waiting: "waiting", inspect.Scheduled: "scheduled"}[status])
	}
	if l := e.wantList(inspect.Filter{Status: inspect.Published}, "published"); l[0].PublishedAt == nil || l[0].Status != inspect.Published {
		e.Errorf("the published one is %+v", l[0])
	}
	e.wantList(inspect.Filter{Status: inspect.Dead}, "dead")
}

// listClockSetBack: what was enqueued and published by a clock that was an hour ahead is not hidden until that time comes.
func listClockSetBack[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.advance(time.Hour)
	e.enqueue(msg("published", ""))
	n.settle(published(n.claimOne("published"))...)
	e.enqueue(msg("pending", ""))
	e.advance(-time.Hour)
	e.wantList(inspect.Filter{}, "pending")
	e.wantList(inspect.Filter{Status: inspect.Published}, "published")
	e.wantList(inspect.Filter{OlderThan: time.Minute})
}

func listByField[Tx any](e *env[Tx]) {
	n := e.join("r1")
	base := msg("a", "k")
	other := func(id string, change func(*waybill.Message)) waybill.Message {
		m := msg(id, "k")
		change(&m)
		return m
	}
	e.enqueue(base,
		other("topic", func(m *waybill.Message) { m.Topic = "mails" }),
		other("tenant", func(m *waybill.Message) { m.Tenant = "acme" }),
		other("key", func(m *waybill.Message) { m.Key = "ann" }),
		other("correlation", func(m *waybill.Message) { m.CorrelationID = "flow-1" }))
	check := func(status inspect.Status) {
		e.Helper()
		e.wantList(inspect.Filter{Status: status, Topic: "mails"}, "topic")
		e.wantList(inspect.Filter{Status: status, Tenant: "acme"}, "tenant")
		e.wantList(inspect.Filter{Status: status, Key: "ann"}, "key")
		e.wantList(inspect.Filter{Status: status, CorrelationID: "flow-1"}, "correlation")
		e.wantList(inspect.Filter{Status: status, MessageID: "tenant"}, "tenant")
		e.wantList(inspect.Filter{Status: status, Text: "ENAN"}, "tenant")
		e.wantList(inspect.Filter{Status: status, Text: "Ann"}, "key")
		e.wantList(inspect.Filter{Status: status, Text: "low-1", Topic: "orders"}, "correlation")
		e.wantList(inspect.Filter{Status: status, Text: "%"})
		e.wantList(inspect.Filter{Status: status, Topic: "orders", Tenant: "acme", Key: "k"}, "tenant")
		e.wantList(inspect.Filter{Status: status, Topic: "mails", Tenant: "acme"})
	}
	check("")
	check(inspect.Pending)
	n.publishAll()
	check(inspect.Published)
}

func listByAge[Tx any](e *env[Tx]) {
	e.enqueue(msg("old", ""))
	e.advance(time.Hour)
	e.enqueue(msg("new", ""))
	e.wantList(inspect.Filter{OlderThan: 30 * time.Minute}, "old")
	e.wantList(inspect.Filter{OlderThan: 2 * time.Hour})
	e.wantList(inspect.Filter{}, "old", "new")
}

func listLimit[Tx any](e *env[Tx]) {
	for _, m := range msgs("a", "k", 3) {
		e.enqueue(m)
		e.advance(time.Second)
	}
	e.wantList(inspect.Filter{Limit: 2}, "a1", "a2")
	e.enqueue(msgs("many", "", inspect.DefaultLimit)...)
	list, err := e.s.OutboxMessages(e.ctx, inspect.Filter{})
	e.must(err, "OutboxMessages")
	if len(list) != inspect.DefaultLimit {
		e.Errorf("without a limit %d messages are listed, want %d", len(list), inspect.DefaultLimit)
	}
}

func listPublished[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for _, m := range msgs("a", "", 3) {
		e.enqueue(m)
		n.publishAll()
		e.advance(time.Second)
	}
	e.wantList(inspect.Filter{Status: inspect.Published, Limit: 2}, "a3", "a2")
}

func listBadFilter[Tx any](e *env[Tx]) {
	for field, f := range map[string]inspect.Filter{
		"status": {Status: "Lost"}, "older than": {OlderThan: -time.Second}, "limit": {Limit: -1},
	} {
		_, err := e.s.OutboxMessages(e.ctx, f)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			e.Errorf("OutboxMessages(%+v) = %v, want an error about %s", f, err, field)
		}
	}
}

func backlogCounts[Tx any](e *env[Tx]) {
	backlog := func() []inspect.Stats {
		stats, err := e.s.OutboxBacklog(e.ctx)
		e.must(err, "OutboxBacklog")
		return stats
	}
	if got := backlog(); got == nil || len(got) != 0 {
		e.Errorf("OutboxBacklog() = %#v of an empty outbox, want an empty slice", got)
	}
	e.oneEach()
	got := backlog()
	if len(got) != 2 || got[0].Status != inspect.Pending || got[1].Status != inspect.Waiting || got[0].Count != 1 || got[0].Topic != "orders" {
		e.Errorf("OutboxBacklog() = %+v, want one pending and one waiting", got)
	}
	if len(got) == 2 && (got[1].Oldest < 2*time.Minute || got[1].Oldest > 4*time.Minute) {
		e.Errorf("the oldest that waits is %v old, want about 3 minutes", got[1].Oldest)
	}
}
