package ops

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

const entriesShown = 100

// Screen is what is shown of one thing.
type Screen struct {
	Target
	Noun     Noun
	Facts    []Fact
	Verbs    []Verb             // that apply
	Letter   *deadletter.Letter // if it is one
	Schedule *ScheduleRow       // likewise
	Instance *saga.Instance     // likewise
	Message  *waybill.Message   // nil for an instance
	Entries  []deadletter.Entry // of the audit log

	about deadletter.Entry // whether confidential content is shown
}

// Secret returns the confidential content: "payload", with the values of headers, or "data".
func (sc *Screen) Secret() (name string, content []byte) {
	if sc.Instance != nil {
		return "data", sc.Instance.Data
	}
	return "payload", sc.Message.Payload
}

// Show reads one thing. Looking at confidential content is recorded first, and is an error if it cannot be recorded.
func (s Stores) Show(ctx context.Context, noun Noun, t Target, looks bool, act deadletter.Act) (sc Screen, err error) {
	sc = Screen{Target: t, Noun: noun}
	switch noun {
	case Letter:
		err = s.showLetter(ctx, &sc)
	case Schedule:
		err = s.showSchedule(ctx, &sc)
	case Scheduled:
		err = s.showScheduled(ctx, &sc)
	case Saga:
		err = s.showInstance(ctx, &sc)
	}
	if err == nil && looks {
		what, _ := sc.Secret()
		err = s.Reveal(ctx, act, what, sc.about)
	}
	if err != nil || noun == Schedule || noun == Saga { // which the audit log cannot be queried for
		return sc, err
	}
	f := deadletter.AuditFilter{Letter: t.Number, Limit: entriesShown}
	if noun == Scheduled {
		f.MessageID = t.Name
	}
	sc.Entries, err = s.Letters.AuditLog(ctx, f)
	return sc, err
}

func (s Stores) showLetter(ctx context.Context, sc *Screen) error {
	l, err := s.Letters.DeadLetter(ctx, sc.Number)
	sc.Letter, sc.Message, sc.Facts, sc.Verbs = &l, &l.Message, LetterFacts(&l), LetterVerbs(&l)
	sc.about = deadletter.Entry{Letter: sc.Number, MessageID: l.Message.ID}
	return err
}

func (s Stores) showSchedule(ctx context.Context, sc *Screen) error {
	one, err := s.Schedules.Schedule(ctx, sc.Name)
	if err != nil {
		return err
	}
	now, err := s.Schedules.ScheduleTime(ctx)
	row := ScheduleRowOf(one, now)
	sc.Schedule, sc.Message, sc.Verbs = &row, &row.State.Message, ScheduleVerbs(row.State)
	sc.Facts = append(ScheduleFacts(row.State, now), MessageFacts(sc.Message)...)
	sc.about = deadletter.Entry{Detail: sc.Name}
	return err
}

func (s Stores) showScheduled(ctx context.Context, sc *Screen) error {
	m, err := s.Schedules.Scheduled(ctx, sc.Name)
	sc.Message, sc.Facts, sc.Verbs = &m, ScheduledFacts(&m), verbs(Scheduled, func(Verb) bool { return true })
	sc.about = deadletter.Entry{MessageID: m.ID}
	return err
}

func (s Stores) showInstance(ctx context.Context, sc *Screen) error {
	in, err := s.Sagas.Saga(ctx, sc.Target.Instance)
	sc.Instance, sc.Facts, sc.Verbs = &in, InstanceFacts(&in), InstanceVerbs(&in)
	sc.about = deadletter.Entry{Detail: in.Saga + " " + in.Key}
	return err
}

// revealed is the part of a message in JSON output only if the payload is shown. It is in the first of them if it is
// UTF-8 text.
type revealed struct {
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

type letterDetail struct {
	LetterRow
	Subject        string             `json:"subject,omitempty"`
	ContentType    string             `json:"content_type"`
	DataSchema     string             `json:"data_schema,omitempty"`
	CorrelationID  string             `json:"correlation_id,omitempty"`
	CausationID    string             `json:"causation_id,omitempty"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"`
	Time           time.Time          `json:"time,omitzero"`
	ExpiresAt      time.Time          `json:"expires_at,omitzero"`
	PayloadBytes   int                `json:"payload_bytes"`
	HeaderNames    []string           `json:"header_names"`
	Audit          []deadletter.Entry `json:"audit"`
	revealed
}

type messageDetail struct {
	Source       string   `json:"source"`
	Tenant       string   `json:"tenant"`
	Key          string   `json:"key,omitempty"`
	Subject      string   `json:"subject,omitempty"`
	ContentType  string   `json:"content_type"`
	PayloadBytes int      `json:"payload_bytes"`
	HeaderNames  []string `json:"header_names"`
	revealed
}

type scheduleDetail struct {
	ScheduleRow
	messageDetail
}

type scheduledDetail struct {
	ID    string    `json:"id"`
	DueAt time.Time `json:"due_at"`
	Topic string    `json:"topic"`
	Type  string    `json:"type"`
	messageDetail
}

// Detail is a dead letter, schedule or scheduled message in JSON output.
func (sc *Screen) Detail(looks bool) any {
	m := sc.Message
	var r revealed
	if looks {
		r.Headers = m.Headers
		if text := string(m.Payload); utf8.ValidString(text) {
			r.Payload = &text
		} else {
			r.PayloadBase64 = m.Payload
		}
	}
	if sc.Letter != nil {
		return letterDetail{
			LetterRow: LetterRowOf(*sc.Letter), Subject: m.Subject, ContentType: m.ContentType, DataSchema: m.DataSchema,
			CorrelationID: m.CorrelationID, CausationID: m.CausationID, IdempotencyKey: m.IdempotencyKey,
			Time: m.Time, ExpiresAt: m.ExpiresAt, PayloadBytes: len(m.Payload), HeaderNames: HeaderNames(m), Audit: sc.Entries, revealed: r,
		}
	}
	d := messageDetail{
		Source: m.Source, Tenant: m.Tenant, Key: m.Key, Subject: m.Subject, ContentType: m.ContentType,
		PayloadBytes: len(m.Payload), HeaderNames: HeaderNames(m), revealed: r,
	}
	if sc.Schedule != nil {
		return scheduleDetail{*sc.Schedule, d}
	}
	return scheduledDetail{m.ID, m.DeliverAt, m.Address(), m.Type, d}
}
