package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/schedule"
)

// scheduleQuestion is what "schedule show" is asked for.
type scheduleQuestion struct {
	name    string
	message bool // name is the id of a single message
	payload bool
	act     deadletter.Act
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
			noun, show := ops.Schedule, p.scheduleShow
			if q.message {
				noun, show = ops.Scheduled, p.scheduledShow
			}
			return p.withStores(cmd, noun, func(ctx context.Context, s ops.Stores) error { return show(ctx, s, q) })
		}),
	}
	cmd.Flags().BoolVar(&q.message, "message", false, "the argument is the id of a single message")
	cmd.Flags().BoolVar(&q.payload, "payload", false, "show payload and headers, and note that in the audit log")
	addWhy(cmd.Flags(), &why)
	return cmd
}

// reveal records that somebody looks at the payload of what e is about, if it is asked for.
func (q scheduleQuestion) reveal(ctx context.Context, s ops.Stores, e deadletter.Entry) error {
	if !q.payload {
		return nil
	}
	return s.Reveal(ctx, q.act, "payload", e)
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
	ops.Revealed
}

func messageDetailOf(m *waybill.Message, payload bool) messageDetail {
	return messageDetail{
		Source: m.Source, Tenant: m.Tenant, Key: m.Key, Subject: m.Subject, ContentType: m.ContentType,
		PayloadBytes: len(m.Payload), HeaderNames: ops.HeaderNames(m), Revealed: ops.RevealedOf(m, payload),
	}
}

func (p *program) scheduleShow(ctx context.Context, stores ops.Stores, q scheduleQuestion) error {
	s, err := stores.Schedules.Schedule(ctx, q.name)
	if err != nil {
		return unknownSchedule(q.name, err)
	}
	now, err := stores.Schedules.ScheduleTime(ctx)
	if err != nil {
		return err
	}
	if err := q.reveal(ctx, stores, deadletter.Entry{Detail: s.Name}); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(struct {
			ops.ScheduleRow
			messageDetail
		}{ops.ScheduleRowOf(s, now), messageDetailOf(&s.Message, q.payload)})
	}
	if err := p.printAll(append(ops.ScheduleFacts(&s, now), ops.MessageFacts(&s.Message)...)); err != nil {
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

// scheduledDetail is a message that waits for its time, as programs get it.
type scheduledDetail struct {
	ID    string    `json:"id"`
	DueAt time.Time `json:"due_at"`
	Topic string    `json:"topic"`
	Type  string    `json:"type"`
	messageDetail
}

func (p *program) scheduledShow(ctx context.Context, stores ops.Stores, q scheduleQuestion) error {
	m, err := stores.Schedules.Scheduled(ctx, q.name)
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("no message is scheduled under the id %s; where it is: waybill outbox show", strconv.Quote(clean(q.name)))
	}
	if err != nil {
		return err
	}
	if err := q.reveal(ctx, stores, deadletter.Entry{MessageID: m.ID}); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(scheduledDetail{m.ID, m.DeliverAt, m.Address(), m.Type, messageDetailOf(&m, q.payload)})
	}
	if err := p.printAll(ops.ScheduledFacts(&m)); err != nil {
		return err
	}
	if q.payload {
		return p.printPayload(&m)
	}
	p.hintf("\nTake it back: waybill schedule cancel %s    Payload: --payload", quoted(m.ID))
	return nil
}
