package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
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
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadShow(cmd.Context(), store, numbers[0], payload, act)
			})(cmd, args)
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "show payload and headers, and note that in the audit log")
	addWhy(cmd.Flags(), &why)
	return cmd
}

// letterDetail is one letter as programs get it.
type letterDetail struct {
	letterRow
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

	// With --payload only. The payload is in the first of them if it is UTF-8 text.
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

func (p *program) deadShow(ctx context.Context, store opener.Store, number int64, payload bool, act deadletter.Act) error {
	l, err := store.DeadLetter(ctx, number)
	if err != nil {
		return unknownLetter(number, err)
	}
	if payload {
		if err := noteReveal(ctx, store, act, "payload", deadletter.Entry{Letter: number, MessageID: l.Message.ID}); err != nil {
			return err
		}
	}
	audit, err := store.AuditLog(ctx, deadletter.AuditFilter{Letter: number})
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(detailOf(l, audit, payload))
	}
	return p.printLetter(l, audit, payload)
}

func detailOf(l deadletter.Letter, audit []deadletter.Entry, payload bool) letterDetail {
	m := &l.Message
	d := letterDetail{
		letterRow: letterRowOf(l), Subject: m.Subject, ContentType: m.ContentType, DataSchema: m.DataSchema,
		CorrelationID: m.CorrelationID, CausationID: m.CausationID, IdempotencyKey: m.IdempotencyKey,
		Time: m.Time, ExpiresAt: m.ExpiresAt, PayloadBytes: len(m.Payload), HeaderNames: headerNames(m), Audit: audit,
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

func headerNames(m *waybill.Message) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m.Headers))...)
}

func (p *program) printLetter(l deadletter.Letter, audit []deadletter.Entry, payload bool) error {
	if err := p.printFields(letterFields(l)); err != nil {
		return err
	}
	if err := p.printHistory(l.History); err != nil {
		return err
	}
	if len(audit) > 0 {
		p.heading("Audit log, the latest first")
		if err := p.printAudit(audit); err != nil {
			return err
		}
	}
	if payload {
		return p.printPayload(&l.Message)
	}
	p.hintNext(l)
	return nil
}

func letterFields(l deadletter.Letter) [][2]string {
	m := &l.Message
	return [][2]string{
		{"number", strconv.FormatInt(l.Number, 10)},
		{"state", stateOf(l)},
		{"failed in", fromWhom(l)},
		{"reason", string(l.Reason)},
		{"error", short(l.Error, waybill.MaxErrorLen)},
		{"group", l.Fingerprint},
		{"failed attempts", thousands(l.Attempts)},
		{"requeued", times(l.Requeues)},
		{"last replay", numberOrNone(l.Replay)},
		{"first failed", moment(&l.FirstFailed)},
		{"last failed", moment(&l.LastFailed)},
		{"settled", moment(l.ResolvedAt)},
		{"resolution", short(l.Resolution, waybill.MaxErrorLen)},
		{"message id", m.ID},
		{"topic", m.Topic},
		{"to", m.To},
		{"type", m.Type},
		{"source", m.Source},
		{"tenant", m.Tenant},
		{"key", m.Key},
		{"subject", m.Subject},
		{"correlation id", m.CorrelationID},
		{"causation id", m.CausationID},
		{"idempotency key", m.IdempotencyKey},
		{"happened", moment(&m.Time)},
		{"expires", moment(&m.ExpiresAt)},
		{"headers", strings.Join(headerNames(m), ", ")},
		{"payload", fmt.Sprintf("%s of %s", plural(len(m.Payload), "byte"), m.ContentType)},
	}
}

func stateOf(l deadletter.Letter) string {
	list := conditions(l)[1:]
	if l.State == deadletter.Open {
		list = append([]string{string(l.State)}, list...)
	}
	return strings.Join(list, ", ")
}

func times(n int) string {
	if n == 0 {
		return ""
	}
	return plural(n, "time")
}

func numberOrNone(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// heading begins a new part of the output.
func (p *program) heading(text string) { fmt.Fprintf(p.stdout, "\n%s\n", text) }

func (p *program) printHistory(history []deadletter.Attempt) error {
	if len(history) == 0 {
		return nil
	}
	p.heading("Failed attempts, the oldest first")
	rows := make([][]string, len(history))
	for i, a := range history {
		took := ""
		if a.Took > 0 {
			took = age(a.Took)
		}
		rows[i] = []string{moment(&a.At), a.Node, took, short(a.Error, 100)}
	}
	return p.printTable([]string{"AT", "NODE", "TOOK", "ERROR"}, rows)
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
