package ops

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// Fact is one named value that is known about something. One without a value is
// not shown.
type Fact struct {
	Name, Value string
	At          time.Time // if the value is a point in time
}

func at(name string, t time.Time) Fact { return Fact{Name: name, Value: Moment(&t), At: t} }

// number formats a number that identifies something; 0 is none.
func number(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// shown omits facts without a value.
func shown(facts ...Fact) []Fact {
	return slices.DeleteFunc(facts, func(f Fact) bool { return f.Value == "" })
}

// HeaderNames are the names of a message's headers.
func HeaderNames(m *waybill.Message) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m.Headers))...)
}

// MessageFacts describe a message except its id and the values of its headers.
func MessageFacts(m *waybill.Message) []Fact {
	return shown(
		Fact{Name: "topic", Value: m.Topic},
		Fact{Name: "to", Value: m.To},
		Fact{Name: "type", Value: m.Type},
		Fact{Name: "source", Value: m.Source},
		Fact{Name: "tenant", Value: m.Tenant},
		Fact{Name: "key", Value: m.Key},
		Fact{Name: "subject", Value: m.Subject},
		Fact{Name: "correlation id", Value: m.CorrelationID},
		Fact{Name: "causation id", Value: m.CausationID},
		Fact{Name: "idempotency key", Value: m.IdempotencyKey},
		at("happened", m.Time),
		at("expires", m.ExpiresAt),
		Fact{Name: "headers", Value: strings.Join(HeaderNames(m), ", ")},
		Fact{Name: "payload", Value: Size(len(m.Payload)) + " of " + m.ContentType},
	)
}

// LetterFacts describe a dead letter and its message.
func LetterFacts(l *deadletter.Letter) []Fact {
	requeued := ""
	if l.Requeues > 0 {
		requeued = Plural(l.Requeues, "time")
	}
	settled := time.Time{}
	if l.ResolvedAt != nil {
		settled = *l.ResolvedAt
	}
	return append(shown(
		Fact{Name: "number", Value: number(l.Number)},
		Fact{Name: "state", Value: LetterState(l)},
		Fact{Name: "failed in", Value: From(l)},
		Fact{Name: "reason", Value: string(l.Reason)},
		Fact{Name: "error", Value: Short(l.Error, observe.MaxErrorLen)},
		Fact{Name: "group", Value: l.Fingerprint},
		Fact{Name: "failed attempts", Value: Count(l.Attempts)},
		Fact{Name: "requeued", Value: requeued},
		Fact{Name: "last replay", Value: number(l.Replay)},
		at("first failed", l.FirstFailed),
		at("last failed", l.LastFailed),
		at("settled", settled),
		Fact{Name: "resolution", Value: Short(l.Resolution, observe.MaxErrorLen)},
		Fact{Name: "message id", Value: l.Message.ID},
	), MessageFacts(&l.Message)...)
}

// ScheduleFacts describe a recurring schedule except its message.
func ScheduleFacts(s *schedule.State, now time.Time) []Fact {
	limit := ""
	if s.MaxExecutions > 0 {
		limit = " of " + Count(s.MaxExecutions)
	}
	return shown(
		Fact{Name: "name", Value: s.Name},
		Fact{Name: "status", Value: string(s.Status())},
		Fact{Name: "when", Value: When(&s.Recurring)},
		at("next", s.NextAt),
		Fact{Name: "late", Value: Late(s, now)},
		at("last", s.LastAt),
		Fact{Name: "last message", Value: s.LastID},
		Fact{Name: "runs", Value: Count(s.Executions) + limit},
		Fact{Name: "skipped", Value: Count(s.Skipped)},
		Fact{Name: "overlap", Value: string(s.Overlap)},
		Fact{Name: "catches up", Value: Age(s.CatchUp)},
		at("start", s.Start),
		at("end", s.End),
	)
}

// ScheduledFacts describe a message that waits for its time.
func ScheduledFacts(m *waybill.Message) []Fact {
	return append(shown(Fact{Name: "message id", Value: m.ID}, at("due", m.DeliverAt)), MessageFacts(m)...)
}

// InstanceFacts describe an instance of a saga.
func InstanceFacts(in *saga.Instance) []Fact {
	return shown(
		Fact{Name: "saga", Value: in.Saga},
		Fact{Name: "key", Value: in.Key},
		Fact{Name: "tenant", Value: in.Tenant},
		Fact{Name: "number", Value: number(in.Number)},
		Fact{Name: "status", Value: string(in.Status)},
		Fact{Name: "state", Value: in.State},
		Fact{Name: "error", Value: Short(in.Error, observe.MaxErrorLen)},
		Fact{Name: "steps", Value: steps(in.Progress)},
		Fact{Name: "timeouts", Value: strings.Join(slices.Sorted(maps.Keys(in.Progress.Timeouts)), ", ")},
		Fact{Name: "definition", Value: strconv.Itoa(in.Definition)},
		Fact{Name: "version", Value: strconv.FormatInt(in.Version, 10)},
		at("started", in.StartedAt),
		at("changed", in.ChangedAt),
		at("ended", in.EndedAt),
		Fact{Name: "data", Value: Size(len(in.Data))},
	)
}

// steps returns the progress of an instance with steps, and "" for one without.
func steps(pr saga.Progress) string {
	switch {
	case pr.Turn == 0:
		return ""
	case pr.Back:
		return strconv.Itoa(pr.Done) + " done, being undone"
	case pr.Waiting:
		return strconv.Itoa(pr.Done) + " done, waits for how the next one ends"
	}
	return strconv.Itoa(pr.Done) + " done"
}
