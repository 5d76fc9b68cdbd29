package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadShowCommand() *cobra.Command {
	var why string
	var payload bool
	cmd := &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show one dead letter with its history",
		Long: `Show one dead letter: what it is, why it is dead, every failed attempt that is remembered, and
who has done what with it. Payload and values of headers may be confidential: they are shown
with --payload, and the audit log keeps who has looked.`,
		Args: takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			numbers, err := letterNumbers(args)
			if err != nil {
				return err
			}
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			return p.withStores(cmd, ops.Letter, func(ctx context.Context, s ops.Stores) error {
				return p.deadShow(ctx, s, numbers[0], payload, act)
			})
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show payload and headers, and note that in the audit log")
	addWhy(cmd.Flags(), &why)
	return cmd
}

// letterDetail is one letter as programs get it.
type letterDetail struct {
	ops.LetterRow
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
	ops.Revealed
}

func (p *program) deadShow(ctx context.Context, s ops.Stores, number int64, payload bool, act deadletter.Act) error {
	l, err := s.Letters.DeadLetter(ctx, number)
	if err != nil {
		return unknownLetter(number, err)
	}
	m := &l.Message
	if payload {
		if err := s.Reveal(ctx, act, "payload", deadletter.Entry{Letter: number, MessageID: m.ID}); err != nil {
			return err
		}
	}
	audit, err := s.Letters.AuditLog(ctx, deadletter.AuditFilter{Letter: number})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(letterDetail{
			LetterRow: ops.LetterRowOf(l), Subject: m.Subject, ContentType: m.ContentType, DataSchema: m.DataSchema,
			CorrelationID: m.CorrelationID, CausationID: m.CausationID, IdempotencyKey: m.IdempotencyKey,
			Time: m.Time, ExpiresAt: m.ExpiresAt, PayloadBytes: len(m.Payload), HeaderNames: ops.HeaderNames(m), Audit: audit, Revealed: ops.RevealedOf(m, payload),
		})
	}
	return p.printLetter(l, audit, payload)
}

func (p *program) printLetter(l deadletter.Letter, audit []deadletter.Entry, payload bool) error {
	if err := p.printAll(ops.LetterFacts(&l)); err != nil {
		return err
	}
	if len(l.History) > 0 {
		p.heading("Failed attempts, the oldest first")
		if _, err := printList(p, l.History, "", attemptListing); err != nil {
			return err
		}
	}
	if len(audit) > 0 {
		p.heading("Audit log, the latest first")
		if _, err := printList(p, audit, "", auditListing); err != nil {
			return err
		}
	}
	if payload {
		return p.printPayload(&l.Message)
	}
	p.hintNext(l)
	return nil
}

// heading begins a new part of the output.
func (p *program) heading(text string) { fmt.Fprintf(p.stdout, "\n%s\n", text) }

var attemptListing = listing[deadletter.Attempt]{
	[]string{"AT", "NODE", "TOOK", "ERROR"},
	func(a deadletter.Attempt) []string {
		took := ""
		if a.Took > 0 {
			took = ops.Age(a.Took)
		}
		return []string{ops.Moment(&a.At), a.Node, took, ops.Short(a.Error, 100)}
	},
}

// hintNext names what can be done with a letter.
func (p *program) hintNext(l deadletter.Letter) {
	switch {
	case l.State != deadletter.Open:
	case l.Requeued:
		p.hintf("\nIt runs again when consumer %s takes it: waybill inbox show %s", l.Consumer, quoted(l.Message.ID))
	default:
		p.hintf("\nPut it back: waybill dead requeue %d    Payload: --payload    Others: resolve, discard, edit", l.Number)
	}
}
