package storetest

import (
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

func inspectTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"unknown id", inspectUnknown[Tx], nil},
		{"a message's whole way", inspectWay[Tx], nil},
		{"an empty outbox", statsEmpty[Tx], nil},
		{"counts by topic and status", statsCounts[Tx], nil},
		{"age of the oldest", statsAge[Tx], nil},
		{"age of a scheduled message", statsAgeScheduled[Tx], nil},
		{"age of one that is not due", statsAgeNotDue[Tx], nil},
	}
}

func inspectUnknown[Tx any](e *env[Tx]) {
	if states := e.states("nothing"); len(states) != 0 {
		e.Errorf("states of an unknown id = %+v, want none", states)
	}
}

func inspectWay[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := msg("a", "k")
	m.DeliverAt = time.Now().Add(time.Hour)
	e.enqueue(m)
	state := e.want(inspect.Scheduled, "a")
	if state.DueAt == nil || state.PublishedAt != nil {
		e.Errorf("state = %+v, want a due time and none of publication", state)
	}
	enqueued := state.EnqueuedAt
	e.wantRecent("EnqueuedAt", enqueued, 0)
	n.settle(settlement(n.claimOne("a"), contract.Schedule))
	e.want(inspect.Scheduled, "a")
	e.advance(2 * time.Hour)
	e.release(1)
	e.want(inspect.Pending, "a")
	n.settle(failed(n.claimOne("a"), 0))
	e.want(inspect.Waiting, "a")
	n.settle(dead(n.claimOne("a")))
	e.want(inspect.Dead, "a")
	e.requeue(e.letter().Number, true)
	e.want(inspect.Waiting, "a")
	n.settle(published(n.claimOne("a"))...)
	state = e.want(inspect.Published, "a")
	e.wantTime("EnqueuedAt", state.EnqueuedAt.UTC(), enqueued.UTC())
	if state.PublishedAt == nil {
		e.Fatal("PublishedAt is not set")
	}
	e.wantRecent("PublishedAt", *state.PublishedAt, 2*time.Hour)
	if state.DueAt != nil {
		e.Errorf("DueAt = %v for a published message, want none", state.DueAt)
	}
}

func (e *env[Tx]) stats() []inspect.Stats {
	e.Helper()
	stats, err := e.s.OutboxStats(e.ctx)
	e.must(err, "OutboxStats")
	return stats
}

func statsEmpty[Tx any](e *env[Tx]) {
	if stats := e.stats(); len(stats) != 0 {
		e.Errorf("OutboxStats() = %+v, want none", stats)
	}
}

func statsCounts[Tx any](e *env[Tx]) {
	n := e.join("r1")
	list := msgs("a", "", 6)
	for i := range list {
		if i >= 4 {
			list[i].Topic = "Invoices"
		}
	}
	e.enqueue(list...)
	claims := n.claim()
	n.settle(published(find(claims, "a1"), find(claims, "a2"))...)
	n.settle(failed(find(claims, "a3"), time.Hour), dead(find(claims, "a5")))
	e.bury("billing", msg("b", "k"))
	e.bury("shipping", msg("c", "k"))
	for _, l := range e.letters(deadletter.Filter{Consumer: "shipping"}) {
		e.resolve(l.Number, true) // nothing is left to decide about it
	}
	want := []inspect.Stats{
		{Topic: "Invoices", Status: inspect.Dead, Count: 1},
		{Topic: "Invoices", Status: inspect.Pending, Count: 1},
		{Topic: "orders", Status: inspect.Dead, Consumer: "billing", Count: 1},
		{Topic: "orders", Status: inspect.Pending, Count: 1},
		{Topic: "orders", Status: inspect.Published, Count: 2},
		{Topic: "orders", Status: inspect.Waiting, Count: 1},
	}
	got := e.stats()
	wantCounts(e, got, want)
	backlog, err := e.s.OutboxBacklog(e.ctx)
	e.must(err, "OutboxBacklog")
	wantCounts(e, backlog, []inspect.Stats{want[1], want[3], want[5]})
}

func wantCounts[Tx any](e *env[Tx], got, want []inspect.Stats) {
	e.Helper()
	if len(got) != len(want) {
		e.Fatalf("stats = %+v, want %+v", got, want)
	}
	for i := range want {
		if got[i].Topic != want[i].Topic || got[i].Status != want[i].Status || got[i].Consumer != want[i].Consumer || got[i].Count != want[i].Count {
			e.Errorf("row %d = %+v, want %+v", i, got[i], want[i])
		}
	}
}

// statsAgeScheduled: a message that was scheduled is as old as the time since it came due.
func statsAgeScheduled[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.scheduled(msg("a", "k"), 24*time.Hour)
	e.advance(25 * time.Hour)
	e.release(1)
	wantAge := func(status inspect.Status, stats []inspect.Stats) {
		e.Helper()
		if len(stats) != 1 || stats[0].Status != status || stats[0].Oldest < 59*time.Minute || stats[0].Oldest > 61*time.Minute {
			e.Errorf("stats = %+v, want one message, %s, an hour old", stats, status)
		}
	}
	backlog := func() []inspect.Stats {
		stats, err := e.s.OutboxBacklog(e.ctx)
		e.must(err, "OutboxBacklog")
		return stats
	}
	wantAge(inspect.Pending, e.stats())
	wantAge(inspect.Pending, backlog())
	n = e.join("r2")
	n.settle(failed(n.claimOne("a"), time.Hour))
	wantAge(inspect.Waiting, e.stats())
	wantAge(inspect.Waiting, backlog())
}

// statsAgeNotDue: before it comes due, its age is negative: how long that will take.
func statsAgeNotDue[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := msg("a", "k")
	m.DeliverAt = time.Now().Add(3 * time.Hour)
	e.enqueue(m)
	wantDue := func(left time.Duration) {
		e.Helper()
		stats := e.stats()
		if len(stats) != 1 || stats[0].Status != inspect.Scheduled || (stats[0].Oldest+left).Abs() > time.Minute {
			e.Errorf("OutboxStats() = %+v, want one message, due in %v", stats, left)
		}
	}
	wantDue(3 * time.Hour)
	n.settle(settlement(n.claimOne("a"), contract.Schedule))
	e.advance(time.Hour)
	wantDue(2 * time.Hour)
}

func statsAge[Tx any](e *env[Tx]) {
	e.enqueue(msg("a", "k"))
	e.advance(time.Hour)
	e.enqueue(msg("b", "k"))
	stats := e.stats()
	if len(stats) != 1 || stats[0].Count != 2 || stats[0].Oldest < 59*time.Minute || stats[0].Oldest > 61*time.Minute {
		e.Errorf("OutboxStats() = %+v, want 2 messages, the oldest an hour old", stats)
	}
}
