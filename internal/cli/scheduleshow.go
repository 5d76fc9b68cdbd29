package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/schedule"
)

// scheduleQuestion is what "schedule show" is asked for.
type scheduleQuestion struct {
	name     string
	message  bool // name is the id of a single message
	payload  bool
	act      deadletter.Act
	auditor  deadletter.Auditor
	schedule schedule.Inspector
}

func (p *program) scheduleShowCommand() *cobra.Command {
	var q scheduleQuestion
	var why string
	cmd := &cobra.Command{
		Use:   "show {NAME | --message ID}",
		Short: "Show one recurring schedule, or one message that waits for its time",
		Long: `Show one recurring schedule, or with --message one message that waits for its time. Payload and
values of headers may be confidential: they are shown with --payload, and the audit log keeps
who has looked.`,
		Args: takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			q.name = args[0]
			if q.act, err = p.act(cmd, why); err != nil {
				return err
			}
			return p.withSchedules(cmd, func(ctx context.Context, store opener.Store, schedules schedule.OperatorStore) error {
				q.auditor, q.schedule = store, schedules
				if q.message {
					return p.scheduledShow(ctx, q)
				}
				return p.scheduleShow(ctx, q)
			})
		}),
	}
	cmd.Flags().BoolVar(&q.message, "message", false, "the argument is the id of a single message")
	cmd.Flags().BoolVar(&q.payload, "payload", false, "show payload and headers, and note that in the audit log")
	addWhy(cmd.Flags(), &why)
	return cmd
}

// reveal notes that somebody looks at the payload of what e is about, if it is asked for.
func (q scheduleQuestion) reveal(ctx context.Context, e deadletter.Entry) error {
	if !q.payload {
		return nil
	}
	return noteReveal(ctx, q.auditor, q.act, "payload", e)
}

// messageDetail is a message as programs get it.
type messageDetail struct {
	Source       string   `json:"source"`
	Tenant       string   `json:"tenant"`
	Key          string   `json:"key,omitempty"`
	Subject      string   `json:"subject,omitempty"`
	ContentType  string   `json:"content_type"`
	PayloadBytes int      `json:"payload_bytes"`
	HeaderNames  []string `json:"header_names"`

	// With --payload only. The payload is in the first of them if it is UTF-8 text.
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

func messageDetailOf(m *waybill.Message, payload bool) messageDetail {
	d := messageDetail{
		Source: m.Source, Tenant: m.Tenant, Key: m.Key, Subject: m.Subject, ContentType: m.ContentType,
		PayloadBytes: len(m.Payload), HeaderNames: headerNames(m),
	}
	if payload {
		d.Headers = m.Headers
		if text := string(m.Payload); utf8.ValidString(text) {
			d.Payload = &text
		} else {
			d.PayloadBase64 = m.Payload
		}
	}
	return d
}

func (p *program) scheduleShow(ctx context.Context, q scheduleQuestion) error {
	s, err := q.schedule.Schedule(ctx, q.name)
	if err != nil {
		return unknownSchedule(q.name, err)
	}
	now, err := q.schedule.ScheduleTime(ctx)
	if err != nil {
		return err
	}
	if err := q.reveal(ctx, deadletter.Entry{Detail: s.Name}); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(struct {
			scheduleRow
			messageDetail
		}{scheduleRowOf(s, now), messageDetailOf(&s.Message, q.payload)})
	}
	if err := p.printFields(append(scheduleFields(&s, now), messageFields(&s.Message)...)); err != nil {
		return err
	}
	if q.payload {
		return p.printPayload(&s.Message)
	}
	switch name := quoted(s.Name); s.Status() {
	case schedule.Paused:
		p.hintf("\nLet it go on: waybill schedule resume %s    Payload: --payload    Others: run-now, remove", name)
	case schedule.Active:
		p.hintf("\nStop it: waybill schedule pause %s    Payload: --payload    Others: run-now, remove", name)
	}
	return nil
}

func scheduleFields(s *schedule.State, now time.Time) [][2]string {
	limit := ""
	if s.MaxExecutions > 0 {
		limit = " of " + thousands(s.MaxExecutions)
	}
	return [][2]string{
		{"name", s.Name},
		{"status", string(s.Status())},
		{"when", when(&s.Recurring)},
		{"next", moment(&s.NextAt)},
		{"late", lateText(lateness(s, now))},
		{"last", moment(&s.LastAt)},
		{"last message", s.LastID},
		{"runs", thousands(s.Executions) + limit},
		{"skipped", thousands(s.Skipped)},
		{"overlap", string(s.Overlap)},
		{"catches up", age(s.CatchUp)},
		{"start", moment(&s.Start)},
		{"end", moment(&s.End)},
	}
}

// messageFields describe a message but for its id and payload.
func messageFields(m *waybill.Message) [][2]string {
	return [][2]string{
		{"topic", m.Topic},
		{"to", m.To},
		{"type", m.Type},
		{"source", m.Source},
		{"tenant", m.Tenant},
		{"key", m.Key},
		{"subject", m.Subject},
		{"headers", strings.Join(headerNames(m), ", ")},
		{"payload", plural(len(m.Payload), "byte") + " of " + m.ContentType},
	}
}

// scheduledDetail is a message that waits for its time, as programs get it.
type scheduledDetail struct {
	ID    string    `json:"id"`
	DueAt time.Time `json:"due_at"`
	Topic string    `json:"topic"`
	Type  string    `json:"type"`
	messageDetail
}

func (p *program) scheduledShow(ctx context.Context, q scheduleQuestion) error {
	m, err := q.schedule.Scheduled(ctx, q.name)
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("no message is scheduled under the id %s; where it is: waybill outbox show", strconv.Quote(clean(q.name)))
	}
	if err != nil {
		return err
	}
	if err := q.reveal(ctx, deadletter.Entry{MessageID: m.ID}); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(scheduledDetail{m.ID, m.DeliverAt, m.Address(), m.Type, messageDetailOf(&m, q.payload)})
	}
	fields := [][2]string{{"message id", m.ID}, {"due", moment(&m.DeliverAt)}, {"expires", moment(&m.ExpiresAt)}}
	if err := p.printFields(append(fields, messageFields(&m)...)); err != nil {
		return err
	}
	if q.payload {
		return p.printPayload(&m)
	}
	p.hintf("\nTake it back: waybill schedule cancel %s    Payload: --payload", quoted(m.ID))
	return nil
}
