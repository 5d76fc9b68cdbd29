package storetest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
)

// recordAudit: what is stored is listed with the changes, under a number and a time that the store
// assigns, whatever the entry says.
func recordAudit[Tx any](e *env[Tx]) {
	e.bury("billing", msg("a", "k"))
	number := e.letter().Number
	e.resolve(number, true)
	want := deadletter.Entry{
		Action: deadletter.ActReveal, By: strings.Repeat("b", waybill.MaxIDLen), Why: strings.Repeat("w", observe.MaxErrorLen),
		Letter: number, MessageID: "a", Replay: 7, Detail: "payload",
	}
	given := want
	given.Number, given.At = 1<<40, time.Unix(0, 0)
	e.must(e.s.RecordAudit(e.ctx, given), "RecordAudit")
	e.recordBadAudit()
	entries := e.audit(deadletter.AuditFilter{})
	if len(entries) != 2 {
		e.Fatalf("%d entries, want that of the change and the one that was recorded", len(entries))
	}
	got := entries[0]
	e.wantRecent("At", got.At, 0)
	if got.Number <= entries[1].Number || got.Number == given.Number {
		e.Errorf("number = %d after %d, want the next one of the store's", got.Number, entries[1].Number)
	}
	want.Number, want.At = got.Number, got.At
	if got != want {
		e.Errorf("entry = %+v, want %+v", got, want)
	}
	for name, f := range map[string]deadletter.AuditFilter{
		"action": {Action: deadletter.ActReveal}, "by": {By: want.By}, "replay": {Replay: 7},
	} {
		if list := e.audit(f); len(list) != 1 || list[0] != want {
			e.Errorf("audit log by %s = %+v, want the entry", name, list)
		}
	}
	if l := e.show(number); l.State != deadletter.Resolved {
		e.Errorf("letter = %+v, want it as it was", l)
	}
}

// recordBadAudit: nothing is stored of an entry whose act is refused.
func (e *env[Tx]) recordBadAudit() {
	e.Helper()
	for name, tc := range map[string]struct {
		entry deadletter.Entry
		field string
	}{
		"nobody":        {deadletter.Entry{}, "by"},
		"a long name":   {deadletter.Entry{By: strings.Repeat("b", waybill.MaxIDLen+1)}, "by"},
		"a NUL":         {deadletter.Entry{By: "ann", Why: "a\x00b"}, "why"},
		"not UTF-8":     {deadletter.Entry{By: "ann", Why: "\xff"}, "why"},
		"a long reason": {deadletter.Entry{By: "ann", Why: strings.Repeat("w", observe.MaxErrorLen+1)}, "why"},
	} {
		e.Run(name, func(t *testing.T) {
			tc.entry.Action = deadletter.ActReveal
			var invalid *waybill.InvalidError
			if err := e.s.RecordAudit(e.ctx, tc.entry); !errors.As(err, &invalid) || invalid.Field != tc.field {
				t.Errorf("RecordAudit() = %v, want an InvalidError that names %s", err, tc.field)
			}
		})
	}
}
