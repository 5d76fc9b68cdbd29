package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
)

func replayTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"preview", previewReplay[Tx], nil},
		{"plans that can't be followed", refusedPlans[Tx], nil},
		{"a limited number at a time, in order", replayInOrder[Tx], nil},
		{"nothing that matches", replayNothing[Tx], nil},
		{"by two at once", replayAtOnce[Tx], nil},
		{"by its filter", replayFilters[Tx], nil},
		{"nothing that was settled when it began", replaySettled[Tx], nil},
		{"nothing newer than the start", replayOld[Tx], nil},
		{"a call that is broken off", replayBrokenOff[Tx], nil},
		{"passes what can't be requeued", replaySkips[Tx], nil},
		{"never comes to a letter twice", replayOnce[Tx], nil},
		{"counts what is dead again", replayFailed[Tx], nil},
		{"stops when too much fails", replayStops[Tx], nil},
		{"does not judge by a few", replayJudgesLate[Tx], nil},
		{"cancelled", replayCancelled[Tx], nil},
		{"audited", replayAudited[Tx], nil},
		{"listed", listReplays[Tx], nil},
		{"unknown number", replayUnknown[Tx], nil},
		{"goes on after a restart", replayRestart[Tx], []need{persists}},
	}
}

// dieAll dead-letters count messages, prefix1 and so on, without a key.
func (n *node[Tx]) dieAll(prefix string, count int) []waybill.Message {
	n.Helper()
	list := msgs(prefix, "", count)
	n.enqueue(list...)
	var outcomes []contract.Settlement
	for _, m := range list { // in order, so that the numbers of the dead letters are, too
		outcomes = append(outcomes, dead(find(n.claim(), m.ID)))
	}
	for _, st := range outcomes {
		n.settle(st)
	}
	return list
}

func (e *env[Tx]) startReplay(p deadletter.Plan) int64 {
	e.Helper()
	number, err := e.s.StartReplay(e.ctx, p, by)
	e.must(err, "StartReplay")
	return number
}

func (e *env[Tx]) replay(number int64) deadletter.Replay {
	e.Helper()
	r, err := e.s.Replay(e.ctx, number)
	e.must(err, "Replay")
	return r
}

func (e *env[Tx]) advanceReplay(number int64, n int) deadletter.Replay {
	e.Helper()
	r, err := e.s.AdvanceReplay(e.ctx, number, n)
	e.must(err, "AdvanceReplay")
	return r
}

// wantReplay checks the progress of a replay: requeued, skipped, dead again.
func (e *env[Tx]) wantReplay(r deadletter.Replay, state deadletter.ReplayState, requeued, skipped, failed int) {
	e.Helper()
	if r.State != state || r.Requeued != requeued || r.Skipped != skipped || r.Failed != failed || (r.EndedAt == nil) != (state == deadletter.Running) {
		e.Fatalf("replay = %+v, want it %s with %d requeued, %d skipped, %d failed", r, state, requeued, skipped, failed)
	}
}

func (e *env[Tx]) preview(f deadletter.Filter, retention time.Duration) deadletter.Preview {
	e.Helper()
	p, err := e.s.PreviewReplay(e.ctx, f, retention)
	e.must(err, "PreviewReplay")
	return p
}

func previewReplay[Tx any](e *env[Tx]) {
	if p := e.preview(deadletter.Filter{}, time.Hour); p != (deadletter.Preview{}) {
		e.Errorf("preview of nothing = %+v", p)
	}
	n := e.join("r1")
	e.die(n, msg("a1", "a"), "no route")
	e.advance(2 * time.Hour)
	e.die(n, msg("a2", "a"), "no route")
	e.die(n, msg("b", ""), "no route")
	e.bury("billing", msg("c", "c"))
	elsewhere := msg("d", "a")
	elsewhere.Topic = "invoices"
	e.bury("billing", elsewhere)
	e.bury("billing", msg("e", "e"))
	letters := e.letters(deadletter.Filter{})
	e.requeue(letters[5].Number, true) // and is no dead letter to requeue any more
	first := letters[0].FirstFailed
	for name, tc := range map[string]struct {
		filter    deadletter.Filter
		retention time.Duration
		want      deadletter.Preview
	}{
		"all":               {deadletter.Filter{}, time.Hour, deadletter.Preview{Letters: 5, Keys: 3, Unprotected: 1, Oldest: first}},
		"kept long":         {deadletter.Filter{}, 3 * time.Hour, deadletter.Preview{Letters: 5, Keys: 3, Oldest: first}},
		"kept for ever":     {deadletter.Filter{}, 0, deadletter.Preview{Letters: 5, Keys: 3, Oldest: first}},
		"of a consumer":     {deadletter.Filter{Consumer: "billing"}, time.Hour, deadletter.Preview{Letters: 2, Keys: 2, Oldest: letters[3].FirstFailed}},
		"without a message": {deadletter.Filter{MessageID: "x"}, time.Hour, deadletter.Preview{}},
	} {
		got := e.preview(tc.filter, tc.retention)
		if !got.Oldest.Equal(tc.want.Oldest) {
			e.Errorf("%s: oldest = %v, want %v", name, got.Oldest, tc.want.Oldest)
		}
		if got.Oldest = tc.want.Oldest; got != tc.want {
			e.Errorf("%s: preview = %+v, want %+v", name, got, tc.want)
		}
	}
}

func refusedPlans[Tx any](e *env[Tx]) {
	e.die(e.join("r1"), msg("a", ""), "no route")
	for _, tc := range []struct {
		field string
		plan  deadletter.Plan
	}{
		{"state", deadletter.Plan{Filter: deadletter.Filter{State: deadletter.Resolved}}},
		{"text", deadletter.Plan{Filter: deadletter.Filter{Text: "route"}}},
		{"limit", deadletter.Plan{Filter: deadletter.Filter{Limit: 3}}},
		{"limit", deadletter.Plan{Filter: deadletter.Filter{After: 3}}},
		{"newest", deadletter.Plan{Filter: deadletter.Filter{Newest: true}}},
		{"topic", deadletter.Plan{Filter: deadletter.Filter{Topic: "a\x00b"}}},
		{"rate", deadletter.Plan{Rate: -1}},
		{"rate", deadletter.Plan{Rate: deadletter.MaxReplayRate + 1}},
		{"rate", deadletter.Plan{Rate: math.NaN()}},
		{"max_failure_ratio", deadletter.Plan{MaxFailureRatio: 1.01}},
		{"max_failure_ratio", deadletter.Plan{MaxFailureRatio: math.NaN()}},
	} {
		_, err := e.s.StartReplay(e.ctx, tc.plan, by)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tc.field {
			e.Errorf("StartReplay(%+v): %v, want an InvalidError that names %s", tc.plan, err, tc.field)
		}
	}
	var invalid *waybill.InvalidError
	if _, err := e.s.PreviewReplay(e.ctx, deadletter.Filter{Newest: true}, 0); !errors.As(err, &invalid) {
		e.Errorf("PreviewReplay: %v, want an InvalidError", err)
	}
	if _, err := e.s.StartReplay(e.ctx, deadletter.Plan{}, deadletter.Act{}); !errors.As(err, &invalid) || invalid.Field != "by" {
		e.Errorf("StartReplay by nobody: %v, want an InvalidError that names by", err)
	}
	if list, err := e.s.Replays(e.ctx, 10); err != nil || len(list) > 0 {
		e.Errorf("Replays() = %v, %v, want none", list, err)
	}
}

func replayInOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 5)
	number := e.startReplay(deadletter.Plan{})
	n.claimOnly()
	r := e.replay(number)
	e.wantReplay(r, deadletter.Running, 0, 0, 0)
	if r.Letters != 5 || r.Act != by || r.Plan.Rate != deadletter.DefaultReplayRate || r.Plan.MaxFailureRatio != deadletter.DefaultMaxFailureRatio {
		e.Errorf("replay = %+v, want 5 letters, who began it, and the defaults", r)
	}
	e.wantRecent("StartedAt", r.StartedAt, 0)
	e.wantReplay(e.advanceReplay(number, 0), deadletter.Running, 0, 0, 0)
	e.wantReplay(e.advanceReplay(number, 2), deadletter.Running, 2, 0, 0)
	n.settle(published(n.claimOnly("a1", "a2")...)...)
	e.wantReplay(e.advanceReplay(number, 2), deadletter.Running, 4, 0, 0)
	r = e.advanceReplay(number, 2)
	e.wantReplay(r, deadletter.Done, 5, 0, 0)
	e.wantRecent("EndedAt", *r.EndedAt, 0)
	e.wantReplay(e.advanceReplay(number, 2), deadletter.Done, 5, 0, 0)
	for _, c := range n.claimOnly("a3", "a4", "a5") {
		if c.Life != 1 || c.Attempts != 0 {
			e.Errorf("claim = %+v, want life 1 and no attempts", c)
		}
	}
}

// replaySettled opens the only dead letter again once a replay has begun without it.
func replaySettled[Tx any](e *env[Tx]) {
	e.join("r1").dieAll("m", 1)
	number := e.letter().Number
	_, err := e.s.DiscardDeadLetter(e.ctx, number, by)
	e.must(err, "DiscardDeadLetter")
	replay := e.startReplay(deadletter.Plan{})
	_, err = e.s.RestoreDeadLetter(e.ctx, number, by)
	e.must(err, "RestoreDeadLetter")
	e.wantReplay(e.advanceReplay(replay, 10), deadletter.Done, 0, 0, 0)
}

func replayNothing[Tx any](e *env[Tx]) {
	number := e.startReplay(deadletter.Plan{})
	e.wantReplay(e.advanceReplay(number, 5), deadletter.Done, 0, 0, 0)
}

func replayAtOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	list := n.dieAll("a", 40)
	number := e.startReplay(deadletter.Plan{})
	e.concurrently(2, func(int) error {
		for {
			var r deadletter.Replay
			err := repeatConflicts(func() (err error) {
				r, err = e.s.AdvanceReplay(e.ctx, number, 3)
				return err
			})
			if err != nil || r.State != deadletter.Running {
				return err
			}
		}
	})
	e.wantReplay(e.replay(number), deadletter.Done, 40, 0, 0)
	for _, c := range n.claimOnly(ids(list)...) {
		if c.Life != 1 {
			e.Errorf("message %s has life %d, want 1: it was requeued once", c.Message.ID, c.Life)
		}
	}
	if entries := e.audit(deadletter.AuditFilter{Action: deadletter.ActRequeue, Limit: 100}); len(entries) != 40 {
		e.Errorf("%d audit entries, want 40", len(entries))
	}
}

func replayFilters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", "key-A"), "timeout after 300 ms")
	between := e.letter().LastFailed.Add(time.Hour)
	e.advance(2 * time.Hour)
	other := msg("b", "key-B")
	other.Topic, other.Type, other.Tenant = "invoices", "invoice.sent", "acme"
	e.die(n, other, "Timeout after 4 ms")
	e.bury("billing", msg("c", "key-C"))
	prints := deadletter.Fingerprint(deadletter.FromRelay, "orders", "order.created", "timeout after 5 ms")
	for name, tc := range map[string]struct {
		f    deadletter.Filter
		want []string
	}{
		"all":         {deadletter.Filter{}, []string{"a", "b", "c"}},
		"open":        {deadletter.Filter{State: deadletter.Open}, []string{"a", "b", "c"}},
		"origin":      {deadletter.Filter{Origin: deadletter.FromRelay}, []string{"a", "b"}},
		"consumer":    {deadletter.Filter{Consumer: "billing"}, []string{"c"}},
		"topic":       {deadletter.Filter{Topic: "invoices"}, []string{"b"}},
		"type":        {deadletter.Filter{Type: "invoice.sent"}, []string{"b"}},
		"tenant":      {deadletter.Filter{Tenant: "acme"}, []string{"b"}},
		"message":     {deadletter.Filter{MessageID: "a"}, []string{"a"}},
		"fingerprint": {deadletter.Filter{Fingerprint: prints}, []string{"a"}},
		"since":       {deadletter.Filter{Since: between}, []string{"b", "c"}},
		"until":       {deadletter.Filter{Until: between}, []string{"a"}},
		"text":        {deadletter.Filter{Since: between.Add(-2 * time.Hour), Text: "TIMEOUT"}, []string{"a", "b"}},
		"none":        {deadletter.Filter{Consumer: "shipping"}, []string{}},
	} {
		number := e.startReplay(deadletter.Plan{Filter: tc.f})
		r := e.replay(number)
		if p := e.preview(tc.f, 0); p.Letters != len(tc.want) || r.Letters != len(tc.want) {
			e.Errorf("%s: %d letters in the preview, %d in the replay, want %d", name, p.Letters, r.Letters, len(tc.want))
		}
		if r.Plan.Filter != tc.f && !tc.f.Since.Equal(r.Plan.Filter.Since) {
			e.Errorf("%s: filter = %+v, want %+v", name, r.Plan.Filter, tc.f)
		}
	}
	number := e.startReplay(deadletter.Plan{Filter: deadletter.Filter{Since: between, Origin: deadletter.FromRelay}})
	e.wantReplay(e.advanceReplay(number, 10), deadletter.Done, 1, 0, 0)
	n.claimOnly("b")
}

func replayOld[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 2)
	number := e.startReplay(deadletter.Plan{})
	n.dieAll("b", 2)
	e.wantReplay(e.advanceReplay(number, 10), deadletter.Done, 2, 0, 0)
	n.settle(dead(find(n.claim(), "a1")), dead(find(n.claim(), "a2")))
	n.claimOnly()
	e.wantReplay(e.advanceReplay(number, 10), deadletter.Done, 2, 0, 2)
	n.claimOnly()
}

func replayBrokenOff[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 3)
	number := e.startReplay(deadletter.Plan{})
	e.advanceReplay(number, 1)
	ctx, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := e.s.AdvanceReplay(ctx, number, 1); err == nil {
		e.Error("AdvanceReplay() = nil under a context that has ended")
	}
	e.wantReplay(e.replay(number), deadletter.Running, 1, 0, 0)
	n.claimOnly("a1")
	e.wantReplay(e.advanceReplay(number, 5), deadletter.Done, 3, 0, 0)
}

func replaySkips[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 6)
	e.buryWithoutKey("billing", waybill.Message{Topic: "orders", Type: "t"})
	letters := e.letters(deadletter.Filter{})
	number := e.startReplay(deadletter.Plan{})
	e.resolve(letters[0].Number, true)
	e.discard(letters[1].Number, true)
	e.requeue(letters[2].Number, true)
	e.enqueue(msg("a4", "")) // its id is pending
	r := e.advanceReplay(number, 100)
	if r.Letters != 7 {
		e.Errorf("replay = %+v, want 7 letters", r)
	}
	e.wantReplay(r, deadletter.Done, 2, 5, 0)
	n.claimOnly("a3", "a4", "a5", "a6")
	for _, entry := range e.audit(deadletter.AuditFilter{Replay: number, Action: deadletter.ActRequeue}) {
		if entry.MessageID != "a5" && entry.MessageID != "a6" {
			e.Errorf("entry = %+v of a letter that was skipped", entry)
		}
	}
}

// replayOnce: a dead letter that can't be requeued, and one that is dead again under its old
// number.
func replayOnce[Tx any](e *env[Tx]) {
	e.buryWithoutKey("billing", waybill.Message{Topic: "orders", Type: "t"})
	e.bury("billing", msg("b", "b"))
	e.bury("billing", msg("c", "c"))
	number := e.startReplay(deadletter.Plan{})
	e.wantReplay(e.advanceReplay(number, 1), deadletter.Running, 0, 1, 0)
	e.wantReplay(e.advanceReplay(number, 1), deadletter.Running, 1, 1, 0)
	e.failRequeued()
	e.wantReplay(e.advanceReplay(number, 10), deadletter.Done, 2, 1, 1)
	for _, l := range e.letters(deadletter.Filter{Consumer: "billing"}) {
		if l.Requeues > 1 {
			e.Errorf("letter = %+v, want it requeued once at most", l)
		}
	}
}

// failRequeued makes billing fail with a requeued dead letter.
func (e *env[Tx]) failRequeued() {
	e.Helper()
	if found, err := e.run("billing", errors.New("card still expired")); !found || err == nil {
		e.Fatalf("RunRequeued() = %v, %v, want the handler's error", found, err)
	}
}

func replayFailed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 3)
	e.bury("billing", msg("c", "c"))
	number := e.startReplay(deadletter.Plan{})
	e.wantReplay(e.advanceReplay(number, 10), deadletter.Done, 4, 0, 0)
	n.settle(failed(find(n.claim(), "a1"), 0)) // which it survives with the replay's mark
	claims := n.claim()
	n.settle(dead(find(claims, "a1")), dead(find(claims, "a2")), published(find(claims, "a3"))[0])
	e.wantReplay(e.replay(number), deadletter.Done, 4, 0, 2)
	e.failRequeued()
	e.wantReplay(e.advanceReplay(number, 1), deadletter.Done, 4, 0, 3)
	for _, l := range e.letters(deadletter.Filter{}) {
		if l.Replay != number {
			e.Errorf("letter = %+v, want the number of the replay, %d", l, number)
		}
	}
	e.requeue(e.letterOf("a2"), true) // by hand: its outcome does not count for the replay
	e.wantReplay(e.replay(number), deadletter.Done, 4, 0, 2)
	n.settle(dead(n.claimOne("a2")))
	e.wantReplay(e.replay(number), deadletter.Done, 4, 0, 2)
}

func replayStops[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 30)
	number := e.startReplay(deadletter.Plan{MaxFailureRatio: 0.4})
	e.advanceReplay(number, 20)
	claims := n.claim()
	for _, c := range claims[:8] {
		n.settle(dead(c))
	}
	e.wantReplay(e.advanceReplay(number, 0), deadletter.Running, 20, 0, 8)
	n.settle(dead(claims[8]))
	r := e.advanceReplay(number, 5)
	e.wantReplay(r, deadletter.Stopped, 20, 0, 9)
	if !strings.Contains(r.Problem, "9 of 20") || !strings.Contains(r.Problem, "0.4") {
		e.Errorf("problem = %q, want both numbers and the limit", r.Problem)
	}
	e.wantReplay(e.advanceReplay(number, 5), deadletter.Stopped, 20, 0, 9)
	if got := e.replay(number).Problem; got != r.Problem {
		e.Errorf("problem = %q, want still %q", got, r.Problem)
	}
	if done, err := e.s.CancelReplay(e.ctx, number, by); done || err != nil {
		e.Errorf("CancelReplay of a stopped replay = %v, %v, want false", done, err)
	}
}

func replayJudgesLate[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 12)
	number := e.startReplay(deadletter.Plan{})
	e.advanceReplay(number, 9)
	for _, c := range n.claim() {
		n.settle(dead(c))
	}
	e.wantReplay(e.advanceReplay(number, 1), deadletter.Running, 10, 0, 9)
	e.wantReplay(e.advanceReplay(number, 1), deadletter.Stopped, 10, 0, 9)
}

func replayCancelled[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 3)
	number := e.startReplay(deadletter.Plan{})
	e.advanceReplay(number, 1)
	for _, want := range []bool{true, false} {
		done, err := e.s.CancelReplay(e.ctx, number, by)
		if e.must(err, "CancelReplay"); done != want {
			e.Errorf("CancelReplay() = %v, want %v", done, want)
		}
	}
	e.wantReplay(e.advanceReplay(number, 5), deadletter.Cancelled, 1, 0, 0)
	n.claimOnly("a1")
	entries := e.audit(deadletter.AuditFilter{Action: deadletter.ActCancel})
	if len(entries) != 1 || entries[0].Replay != number || entries[0].By != by.By || entries[0].Why != by.Why {
		e.Errorf("entries = %+v, want one of the cancellation", entries)
	}
	var invalid *waybill.InvalidError
	if _, err := e.s.CancelReplay(e.ctx, number, deadletter.Act{}); !errors.As(err, &invalid) {
		e.Errorf("CancelReplay by nobody: %v, want an InvalidError", err)
	}
}

func replayAudited[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 2)
	e.bury("billing", msg("c", "c"))
	letters := e.letters(deadletter.Filter{})
	number := e.startReplay(deadletter.Plan{})
	e.advanceReplay(number, 10)
	var want []deadletter.Entry // the newest first
	for _, l := range letters {
		want = append([]deadletter.Entry{{Action: deadletter.ActRequeue, Letter: l.Number, MessageID: l.Message.ID}}, want...)
	}
	want = append(want, deadletter.Entry{Action: deadletter.ActReplay})
	got := e.audit(deadletter.AuditFilter{Replay: number})
	if len(got) != len(want) {
		e.Fatalf("entries = %+v, want %d", got, len(want))
	}
	for i, g := range got {
		w := want[i]
		w.Number, w.At, w.By, w.Why, w.Replay = g.Number, g.At, by.By, by.Why, number
		if g != w {
			e.Errorf("entry = %+v, want %+v", g, w)
		}
	}
}

func listReplays[Tx any](e *env[Tx]) {
	if list, err := e.s.Replays(e.ctx, 10); err != nil || list == nil || len(list) > 0 {
		e.Errorf("Replays() = %#v, %v, want an empty slice", list, err)
	}
	n := e.join("r1")
	n.dieAll("a", 1)
	var numbers []int64
	for range 4 {
		numbers = append(numbers, e.startReplay(deadletter.Plan{}))
	}
	e.advanceReplay(numbers[1], 5)
	e.advanceReplay(numbers[3], 5)
	for limit, want := range map[int][]int64{10: {numbers[2], numbers[0], numbers[3], numbers[1]}, 3: {numbers[2], numbers[0], numbers[3]}} {
		list, err := e.s.Replays(e.ctx, limit)
		e.must(err, "Replays")
		var got []int64
		for _, r := range list {
			got = append(got, r.Number)
		}
		if !slices.Equal(got, want) {
			e.Errorf("Replays(%d) = %v, want those that run first, then the newest first: %v", limit, got, want)
		}
	}
}

func replayUnknown[Tx any](e *env[Tx]) {
	for _, number := range []int64{-1, 0, 1, 1 << 40} {
		_, shown := e.s.Replay(e.ctx, number)
		_, advanced := e.s.AdvanceReplay(e.ctx, number, 1)
		_, cancelled := e.s.CancelReplay(e.ctx, number, by)
		for name, err := range map[string]error{"Replay": shown, "AdvanceReplay": advanced, "CancelReplay": cancelled} {
			if !errors.Is(err, waybill.ErrNotFound) {
				e.Errorf("%s(%d): %v, want ErrNotFound", name, number, err)
			}
		}
	}
}

func replayRestart[Tx any](e *env[Tx]) {
	n := e.join("r1")
	n.dieAll("a", 4)
	number := e.startReplay(deadletter.Plan{Filter: deadletter.Filter{Type: "order.created"}, Rate: 7, MaxFailureRatio: 0.25})
	e.advanceReplay(number, 2)
	before := e.replay(number)
	e.reopen()
	if after := e.replay(number); fmt.Sprint(after) != fmt.Sprint(before) {
		e.Errorf("replay = %+v, want %+v", after, before)
	}
	e.wantReplay(e.advanceReplay(number, 5), deadletter.Done, 4, 0, 0)
	e.join("r1").claimOnly("a1", "a2", "a3", "a4")
}
