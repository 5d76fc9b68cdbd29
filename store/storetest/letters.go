package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
)

// by is the operator of the suite.
var by = deadletter.Act{By: "ann@example.com", Why: "the shop has closed"}

func letterTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"shown", showLetter[Tx], nil},
		{"shown, unknown number", showUnknown[Tx], nil},
		{"a list has no payloads", listWithoutPayloads[Tx], nil},
		{"found by what failed and when", filterLetters[Tx], nil},
		{"filters that can't be answered", refusedFilters[Tx], nil},
		{"the newest first", newestLetters[Tx], nil},
		{"groups", groupLetters[Tx], nil},
		{"groups follow every change", groupChanges[Tx], nil},
		{"discard", discardLetter[Tx], nil},
		{"discard a parking letter", discardParking[Tx], nil},
		{"restore", restoreLetter[Tx], nil},
		{"delete", deleteLetter[Tx], nil},
		{"delete a parking letter", deleteParking[Tx], nil},
		{"delete a consumer's letter", deleteConsumer[Tx], nil},
		{"dies again", dieAgain[Tx], nil},
		{"dies again at several destinations", dieAgainApart[Tx], nil},
		{"dies again at its consumer", dieAgainAtConsumer[Tx], nil},
		{"edit a relay's letter", editRelay[Tx], nil},
		{"edit keeps the order of the key", editInOrder[Tx], nil},
		{"edit a consumer's letter", editConsumer[Tx], nil},
		{"edit what is not open", editClosed[Tx], nil},
		{"edit to what is not valid", editInvalid[Tx], nil},
		{"audited once", auditOnce[Tx], nil},
		{"audit log, page by page", auditPages[Tx], nil},
		{"acts that can't be stored", refusedActs[Tx], nil},
		{"an entry about what is no change", recordAudit[Tx], nil},
	}
}

// die dead-letters a message at its first attempt with the given error.
func (e *env[Tx]) die(n *node[Tx], m waybill.Message, errText string) {
	e.Helper()
	e.enqueue(m)
	st := dead(n.claimOne(m.ID))
	st.Error = errText
	n.settle(st)
}

func (e *env[Tx]) show(number int64) deadletter.Letter {
	e.Helper()
	l, err := e.s.DeadLetter(e.ctx, number)
	e.must(err, "DeadLetter")
	return l
}

// listWithoutPayloads: a list of dead letters must fit into memory, whatever their payloads.
func listWithoutPayloads[Tx any](e *env[Tx]) {
	m := full("a")
	e.die(e.join("r1"), m, "broken")
	letters := e.letters(deadletter.Filter{})
	if len(letters) != 1 || letters[0].Message.ID != "a" || letters[0].Message.Payload != nil {
		e.Fatalf("DeadLetters() = %+v, want one letter without a payload", letters)
	}
	if got := e.show(letters[0].Number).Message.Payload; !slices.Equal(got, m.Payload) {
		e.Errorf("DeadLetter().Message.Payload = %q, want %q", got, m.Payload)
	}
}

func showLetter[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := full("a")
	e.die(n, m, "no route to host")
	listed := e.letter()
	l := e.show(listed.Number)
	e.wantMessage(l.Message, m)
	if l.Number != listed.Number || l.Error != "no route to host" || l.State != deadletter.Open || l.Reason != listed.Reason ||
		l.Fingerprint != deadletter.Fingerprint(deadletter.FromRelay, m.Address(), m.Type, "no route to host") || l.Fingerprint != listed.Fingerprint {
		e.Errorf("letter = %+v, want the one of the list %+v", l, listed)
	}
}

func showUnknown[Tx any](e *env[Tx]) {
	for _, number := range []int64{-1, 0, 1, 1 << 40} {
		if _, err := e.s.DeadLetter(e.ctx, number); !errors.Is(err, waybill.ErrNotFound) {
			e.Errorf("DeadLetter(%d): %v, want ErrNotFound", number, err)
		}
	}
}

// messageIDs returns the ids of the messages of a list.
func (e *env[Tx]) messageIDs(f deadletter.Filter) []string {
	e.Helper()
	ids := []string{}
	for _, l := range e.letters(f) {
		ids = append(ids, l.Message.ID)
	}
	return ids
}

func filterLetters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", "key-A"), "timeout after 300 ms")
	e.advance(2 * time.Hour)
	b := msg("b", "key-B")
	b.CorrelationID = "Flow-7"
	e.die(n, b, "Timeout after 4 ms")
	e.die(n, msg("c", "100%_"), "no such queue")
	var at []time.Time
	prints := make(map[string]string)
	for _, l := range e.letters(deadletter.Filter{}) {
		at = append(at, l.LastFailed)
		prints[l.Message.ID] = l.Fingerprint
	}
	between := at[0].Add(time.Hour)
	e.resolve(e.letters(deadletter.Filter{MessageID: "c"})[0].Number, true)
	for name, tc := range map[string]struct {
		f    deadletter.Filter
		want []string
	}{
		"fingerprint":           {deadletter.Filter{Fingerprint: prints["a"]}, []string{"a"}},
		"since":                 {deadletter.Filter{Since: between}, []string{"b"}},
		"since, exactly":        {deadletter.Filter{Since: at[1]}, []string{"b"}},
		"until":                 {deadletter.Filter{Until: between}, []string{"a"}},
		"until, exactly":        {deadletter.Filter{Until: at[1]}, []string{"a"}},
		"between":               {deadletter.Filter{Since: at[0], Until: at[1]}, []string{"a"}},
		"message":               {deadletter.Filter{MessageID: "b"}, []string{"b"}},
		"key":                   {deadletter.Filter{Key: "key-A"}, []string{"a"}},
		"correlation id":        {deadletter.Filter{CorrelationID: "Flow-7"}, []string{"b"}},
		"text alone":            {deadletter.Filter{Text: "timeout"}, []string{"a", "b"}},
		"text alone, newest":    {deadletter.Filter{Text: "timeout", Newest: true, Limit: 1}, []string{"b"}},
		"text of the flow":      {deadletter.Filter{Text: "flow-7", Topic: "orders"}, []string{"b"}},
		"text of the error":     {deadletter.Filter{Since: at[0], Text: "TIMEOUT after"}, []string{"a", "b"}},
		"text of the key":       {deadletter.Filter{Since: at[0], Text: "KEY-b"}, []string{"b"}},
		"text in a group":       {deadletter.Filter{Fingerprint: prints["b"], Text: "4 ms"}, []string{"b"}},
		"text with wildcards":   {deadletter.Filter{Since: at[0], Text: "%"}, []string{}},
		"resolved":              {deadletter.Filter{State: deadletter.Resolved}, []string{"c"}},
		"resolved, by its text": {deadletter.Filter{State: deadletter.Resolved, Since: at[0], Text: `100%_`}, []string{"c"}},
		"discarded":             {deadletter.Filter{State: deadletter.Discarded}, []string{}},
	} {
		if got := e.messageIDs(tc.f); !slices.Equal(got, tc.want) {
			e.Errorf("filter %q: letters %v, want %v", name, got, tc.want)
		}
	}
}

func refusedFilters[Tx any](e *env[Tx]) {
	now := time.Now()
	for field, f := range map[string]deadletter.Filter{
		"state":  {State: "closed"},
		"origin": {Origin: "broker"},
		"text":   {Text: "a\x00b"},
		"until":  {Since: now, Until: now},
		"limit":  {Limit: -1},
	} {
		_, err := e.s.DeadLetters(e.ctx, f)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			e.Errorf("DeadLetters(%+v): %v, want an InvalidError that names %s", f, err, field)
		}
	}
}

func newestLetters[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i := range 7 {
		e.die(n, msg(fmt.Sprint("a", i), ""), "gone")
	}
	var got []string
	for last := int64(0); ; {
		page := e.letters(deadletter.Filter{Newest: true, After: last, Limit: 3})
		for _, l := range page {
			got, last = append(got, l.Message.ID), l.Number
		}
		if len(page) < 3 {
			break
		}
	}
	if want := []string{"a6", "a5", "a4", "a3", "a2", "a1", "a0"}; !slices.Equal(got, want) {
		e.Errorf("letters, the newest first: %v, want %v", got, want)
	}
}

func (e *env[Tx]) groups(limit int) []deadletter.Group {
	e.Helper()
	groups, err := e.s.DeadLetterGroups(e.ctx, limit)
	e.must(err, "DeadLetterGroups")
	if groups == nil {
		e.Fatal("DeadLetterGroups() = nil, want a slice")
	}
	return groups
}

func groupLetters[Tx any](e *env[Tx]) {
	if groups := e.groups(10); len(groups) != 0 {
		e.Errorf("groups = %+v, want none", groups)
	}
	n := e.join("r1")
	e.die(n, msg("a1", ""), "queue orders-17 is full")
	e.advance(3 * time.Hour)
	e.die(n, msg("a2", ""), "queue orders-4711 is full")
	e.die(n, msg("b", ""), "no route")
	e.bury("billing", msg("c", ""))
	groups := e.groups(10)
	if len(groups) != 3 || groups[0].Open != 2 {
		e.Fatalf("groups = %+v, want three, the one of two first", groups)
	}
	g, newest := groups[0], e.letters(deadletter.Filter{MessageID: "a2"})[0]
	want := deadletter.Group{
		Fingerprint: deadletter.Fingerprint(deadletter.FromRelay, "orders", "order.created", "queue orders-1 is full"),
		Origin:      deadletter.FromRelay, Topic: "orders", Type: "order.created", Reason: newest.Reason, Error: newest.Error,
		Newest: newest.Number, Open: 2, LastFailed: newest.LastFailed,
	}
	want.Trend[23], want.Trend[20] = 1, 1
	if g != want {
		e.Errorf("group = %+v, want %+v", g, want)
	}
	e.must(e.s.FoldDeadLetters(e.ctx), "FoldDeadLetters")
	if some := e.groups(1); len(some) != 1 || some[0] != g {
		e.Errorf("groups(1) = %+v, want the largest", some)
	}
	for _, g := range groups[1:] {
		if g.Origin == deadletter.FromConsumer && (g.Consumer != "billing" || g.Open != 1) {
			e.Errorf("group = %+v, want one letter of billing", g)
		}
	}
}

// groupChanges makes a group lose and regain dead letters in every possible way.
func groupChanges[Tx any](e *env[Tx]) {
	n := e.join("r1")
	number := make(map[string]int64)
	for _, id := range []string{"a", "b", "c", "d"} {
		e.die(n, msg(id, ""), "no route")
		number[id] = e.letters(deadletter.Filter{MessageID: id})[0].Number
	}
	wantOpen := func(after string, want int) {
		e.Helper()
		for _, when := range []string{"", " and a fold"} {
			open := 0
			for _, g := range e.groups(10) {
				open += g.Open
			}
			if open != want {
				e.Errorf("after %s%s: %d open letters, want %d", after, when, open, want)
			}
			e.must(e.s.FoldDeadLetters(e.ctx), "FoldDeadLetters")
		}
	}
	wantOpen("four deaths", 4)
	e.resolve(number["a"], true)
	wantOpen("a resolution", 3)
	e.discard(number["b"], true)
	wantOpen("a discard", 2)
	e.requeue(number["c"], true)
	wantOpen("a requeue", 1)
	n.settle(dead(n.claimOne("c")))
	wantOpen("another death", 2)
	if _, err := e.s.EditDeadLetter(e.ctx, number["d"], deadletter.Edit{}, by); err != nil {
		e.Fatal(err)
	}
	wantOpen("an edit", 1)
	e.bury("billing", msg("e", ""))
	wantOpen("a burial", 2)
	consumers := e.letters(deadletter.Filter{Origin: deadletter.FromConsumer})[0].Number
	e.requeue(consumers, true)
	wantOpen("a requeue to the consumer", 1)
}

func (e *env[Tx]) discard(number int64, want bool) {
	e.Helper()
	done, err := e.s.DiscardDeadLetter(e.ctx, number, by)
	e.must(err, "DiscardDeadLetter")
	if done != want {
		e.Fatalf("DiscardDeadLetter(%d) = %v, want %v", number, done, want)
	}
}

func discardLetter[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", ""), "no route")
	number := e.letter().Number
	e.discard(number, true)
	e.discard(number, false)
	l := e.show(number)
	if l.State != deadletter.Discarded || l.ResolvedAt == nil || l.Resolution != by.Why {
		e.Errorf("letter = %+v, want it discarded", l)
	}
	e.want(inspect.Discarded, "a")
	if got := e.messageIDs(deadletter.Filter{}); len(got) != 0 {
		e.Errorf("open letters %v, want none", got)
	}
	if _, err := e.s.RequeueDeadLetter(e.ctx, number, by); !errors.Is(err, deadletter.ErrResolved) {
		e.Errorf("requeue of a discarded letter: %v, want ErrResolved", err)
	}
	e.bury("billing", msg("b", ""))
	e.requeue(e.letter().Number, true)
	if done, err := e.s.DiscardDeadLetter(e.ctx, e.letter().Number, by); done || !errors.Is(err, deadletter.ErrRequeued) {
		e.Errorf("discard of a requeued letter = %v, %v, want ErrRequeued", done, err)
	}
	if done, err := e.s.DiscardDeadLetter(e.ctx, 1<<40, by); done || !errors.Is(err, waybill.ErrNotFound) {
		e.Errorf("discard of an unknown letter = %v, %v, want ErrNotFound", done, err)
	}
}

func discardParking[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.discard(n.parked().Number, true)
	n.claimOnly("a2", "a3", "a4")
}

func editRelay[Tx any](e *env[Tx]) {
	n := e.join("r1")
	m := full("a")
	e.die(n, m, "no such field")
	number := e.letter().Number
	payload, headers := []byte(`{"fixed":true}`), map[string]string{"x-fixed": "1"}
	id, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{Payload: &payload, Headers: &headers}, by)
	e.must(err, "EditDeadLetter")
	c := n.claimOne(id)
	want := m.Clone()
	want.ID, want.CausationID, want.IdempotencyKey, want.Payload, want.Headers = id, m.ID, "", payload, headers
	e.wantMessage(c.Message, want)
	if c.Attempts != 0 {
		e.Errorf("%d attempts, want none", c.Attempts)
	}
	n.settle(published(c)...)
	if l := e.show(number); l.State != deadletter.Resolved || string(l.Message.Payload) != string(m.Payload) {
		e.Errorf("letter = %+v, want the original, resolved", l)
	}
}

func editInOrder[Tx any](e *env[Tx]) {
	n := e.join("r1")
	l := n.parked() // a1, with a2 to a4 behind it
	id, err := e.s.EditDeadLetter(e.ctx, l.Number, deadletter.Edit{}, by)
	e.must(err, "EditDeadLetter")
	n.claimOnly(id, "a2", "a3", "a4") // in this order
}

func editConsumer[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.bury("billing", m)
	e.bury("shipping", m)
	payload := []byte(`{"fixed":true}`)
	id, err := e.s.EditDeadLetter(e.ctx, e.letters(deadletter.Filter{Consumer: "billing"})[0].Number, deadletter.Edit{Payload: &payload}, by)
	e.must(err, "EditDeadLetter")
	e.wantRun("shipping", false)
	var got waybill.Message
	found, err := e.runWith("billing", func(_ context.Context, _ Tx, m *waybill.Message) error {
		got = m.Clone()
		return nil
	})
	e.must(err, "RunRequeued")
	if !found || got.ID != id || got.CausationID != "a" || string(got.Payload) != string(payload) {
		e.Fatalf("billing has run %+v, want the copy", got)
	}
	e.process("billing", got, inbox.Duplicate)
	e.wantNowhere(id) // it was never in the outbox
}

func editClosed[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", ""), "no route")
	e.bury("billing", msg("b", ""))
	letters := e.letters(deadletter.Filter{})
	e.resolve(letters[0].Number, true)
	e.requeue(letters[1].Number, true)
	for number, want := range map[int64]error{letters[0].Number: deadletter.ErrResolved, letters[1].Number: deadletter.ErrRequeued, 1 << 40: waybill.ErrNotFound} {
		if id, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{}, by); id != "" || !errors.Is(err, want) {
			e.Errorf("EditDeadLetter(%d) = %q, %v, want %v", number, id, err, want)
		}
	}
	n.claimOnly()
}

func editInvalid[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", ""), "no route")
	number := e.letter().Number
	topic := "no good\x00topic"
	var invalid *waybill.InvalidError
	if id, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{Topic: &topic}, by); id != "" || !errors.As(err, &invalid) {
		e.Errorf("EditDeadLetter() = %q, %v, want an InvalidError", id, err)
	}
	if l := e.show(number); l.State != deadletter.Open {
		e.Errorf("letter = %+v, want it open", l)
	}
	n.claimOnly()
}

func (e *env[Tx]) audit(f deadletter.AuditFilter) []deadletter.Entry {
	e.Helper()
	entries, err := e.s.AuditLog(e.ctx, f)
	e.must(err, "AuditLog")
	if entries == nil {
		e.Fatal("AuditLog() = nil, want a slice")
	}
	return entries
}

func auditOnce[Tx any](e *env[Tx]) {
	n := e.join("r1")
	number := make(map[string]int64)
	for _, id := range []string{"a", "b", "c", "d"} {
		e.die(n, msg(id, ""), "no route")
		number[id] = e.letters(deadletter.Filter{MessageID: id})[0].Number
	}
	if entries := e.audit(deadletter.AuditFilter{}); len(entries) != 0 {
		e.Errorf("entries = %+v, want none", entries)
	}
	var copied string
	for range 2 { // a repeated action is not audited again
		_, _ = e.s.RequeueDeadLetter(e.ctx, number["a"], by)
		_, _ = e.s.ResolveDeadLetter(e.ctx, number["b"], by)
		_, _ = e.s.DiscardDeadLetter(e.ctx, number["c"], by)
		if id, err := e.s.EditDeadLetter(e.ctx, number["d"], deadletter.Edit{}, by); err == nil {
			copied = id
		}
	}
	got := e.audit(deadletter.AuditFilter{})
	want := []deadletter.Entry{
		{Action: deadletter.ActEdit, Letter: number["d"], MessageID: "d", Detail: copied},
		{Action: deadletter.ActDiscard, Letter: number["c"], MessageID: "c"},
		{Action: deadletter.ActResolve, Letter: number["b"], MessageID: "b"},
		{Action: deadletter.ActRequeue, Letter: number["a"], MessageID: "a"},
	}
	if len(got) != len(want) {
		e.Fatalf("%d entries, want %d: %+v", len(got), len(want), got)
	}
	for i, g := range got {
		e.wantRecent("At", g.At, 0)
		w := want[i]
		w.Number, w.At, w.By, w.Why = g.Number, g.At, by.By, by.Why
		if g != w || g.Number <= 0 {
			e.Errorf("entry = %+v, want %+v", g, w)
		}
	}
	for name, f := range map[string]deadletter.AuditFilter{
		"action": {Action: deadletter.ActResolve}, "letter": {Letter: number["b"]}, "message": {MessageID: "b"},
	} {
		if got := e.audit(f); len(got) != 1 || got[0].Letter != number["b"] {
			e.Errorf("audit log by %s = %+v, want that of b", name, got)
		}
	}
	if got := e.audit(deadletter.AuditFilter{By: "bob"}); len(got) != 0 {
		e.Errorf("bob's entries = %+v, want none", got)
	}
}

func auditPages[Tx any](e *env[Tx]) {
	n := e.join("r1")
	for i := range 7 {
		e.die(n, msg(fmt.Sprint("a", i), ""), "no route")
		e.discard(e.letter().Number, true)
	}
	var got []string
	for before := int64(0); ; {
		page := e.audit(deadletter.AuditFilter{Before: before, Limit: 3})
		for _, entry := range page {
			got, before = append(got, entry.MessageID), entry.Number
		}
		if len(page) < 3 {
			break
		}
	}
	if want := []string{"a6", "a5", "a4", "a3", "a2", "a1", "a0"}; !slices.Equal(got, want) {
		e.Errorf("audit log, page by page: %v, want %v", got, want)
	}
}

func refusedActs[Tx any](e *env[Tx]) {
	n := e.join("r1")
	e.die(n, msg("a", ""), "no route")
	number := e.letter().Number
	for name, act := range map[string]deadletter.Act{"by": {Why: "because"}, "why": {By: "ann", Why: "a\x00b"}} {
		e.Run(name, func(t *testing.T) {
			for _, call := range []func() error{
				func() error { _, err := e.s.RequeueDeadLetter(e.ctx, number, act); return err },
				func() error { _, err := e.s.ResolveDeadLetter(e.ctx, number, act); return err },
				func() error { _, err := e.s.DiscardDeadLetter(e.ctx, number, act); return err },
				func() error { _, err := e.s.EditDeadLetter(e.ctx, number, deadletter.Edit{}, act); return err },
			} {
				var invalid *waybill.InvalidError
				if err := call(); !errors.As(err, &invalid) || invalid.Field != name {
					t.Errorf("%v, want an InvalidError that names %s", err, name)
				}
			}
		})
	}
	e.want(inspect.Dead, "a")
}
