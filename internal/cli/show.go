package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// shower makes cmd show one thing, which pick returns once the flags are parsed.
func (p *program) shower(cmd *cobra.Command, secret string, pick func() (ops.Noun, operand), show func(ctx context.Context, s ops.Stores, o operand, sc ops.Screen, looks bool) error) *cobra.Command {
	var why string
	var looks bool
	cmd.Flags().BoolVar(&looks, secret, false, "show "+secretNames[secret]+", and note that in the audit log")
	addWhy(cmd.Flags(), &why)
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		noun, o := pick()
		t, err := o.read(args)
		if err != nil {
			return err
		}
		act, err := p.act(cmd, why)
		if err != nil {
			return err
		}
		return p.withStores(cmd, noun, func(ctx context.Context, s ops.Stores) error {
			sc, err := s.Show(ctx, noun, t, looks, act)
			if errors.Is(err, waybill.ErrNotFound) {
				return o.unknown(t, err)
			}
			if err != nil {
				return err
			}
			return show(ctx, s, o, sc, looks)
		})
	})
	return cmd
}

var secretNames = map[string]string{"payload": "payload and headers", "data": "the data"}

// showScreen shows a thing that a message belongs to.
func (p *program) showScreen(_ context.Context, _ ops.Stores, o operand, sc ops.Screen, looks bool) error {
	if p.json {
		return p.printJSON(sc.Detail(looks))
	}
	if err := p.printAll(sc.Facts); err != nil {
		return err
	}
	if l := sc.Letter; l != nil && len(l.History) > 0 {
		p.heading("Failed attempts, the oldest first")
		if err := p.printTable(attemptListing.of(l.History)); err != nil {
			return err
		}
	}
	if len(sc.Entries) > 0 {
		p.heading("Audit log, the latest first")
		if err := p.printTable(auditListing.of(sc.Entries)); err != nil {
			return err
		}
	}
	if looks {
		return p.printPayload(sc.Message)
	}
	p.hintNext(o, &sc)
	return nil
}

// hintNext names what can be done with a thing.
func (p *program) hintNext(o operand, sc *ops.Screen) {
	if l := sc.Letter; l != nil && l.Requeued {
		p.hintf("\nIt runs again when consumer %s takes it: waybill inbox show %s", l.Consumer, quoted(l.Message.ID))
		return
	}
	if len(sc.Verbs) == 0 || sc.Verbs[0].Invites == "" {
		return
	}
	first, secret := sc.Verbs[0], ""
	secret, _ = sc.Secret()
	hint := fmt.Sprintf("\n%s: %s    %s: --%s", first.Invites, o.typed(first.Name, sc.Target), ops.Capital(secret), secret)
	var others []string
	for _, v := range sc.Verbs[1:] {
		others = append(others, v.Name)
	}
	if others != nil {
		hint += "    Others: " + strings.Join(others, ", ")
	}
	p.hintf("%s", hint)
}

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

// heading begins a new part of the output.
func (p *program) heading(text string) { fmt.Fprintf(p.stdout, "\n%s\n", text) }
