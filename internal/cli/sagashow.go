package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

func (p *program) sagaShowCommand() *cobra.Command {
	o := sagaOperand()
	cmd := &cobra.Command{
		Use:   "show " + sagaArgs,
		Short: "Show one instance with its history",
		Long: `Show one instance: where it stands, and every change that led there. Its data may be
confidential: it is shown with --data, and the audit log keeps who has looked. --diagram draws
the way of the instance, as text for Mermaid, instead.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags := cmd.Flags(); flags.Changed("data") && flags.Changed("diagram") {
				return usagef("--data and --diagram do not go together")
			}
			return takes(2)(cmd, args)
		},
	}
	flags := cmd.Flags()
	o.flags(flags)
	diagram := flags.Bool("diagram", false, "draw the way of the instance, as text for Mermaid")
	return p.shower(cmd, "data", func() (ops.Noun, operand) { return ops.Saga, o },
		func(ctx context.Context, s ops.Stores, o operand, sc ops.Screen, looks bool) error {
			return p.sagaShow(ctx, s, o, sc, sagaLook{looks, *diagram})
		})
}

// sagaLook selects what to show of an instance.
type sagaLook struct{ data, diagram bool }

// instanceDetail is one instance in the JSON output. Data is set with --data only.
type instanceDetail struct {
	saga.Instance
	DataBytes int          `json:"data_bytes"`
	Log       []saga.Entry `json:"log"`
	Diagram   string       `json:"diagram,omitempty"` // with --diagram only
}

func (p *program) sagaShow(ctx context.Context, s ops.Stores, o operand, sc ops.Screen, look sagaLook) error {
	log, err := ops.SagaLog(ctx, s.Sagas, sc.Target.Instance)
	if err != nil {
		return err
	}
	d := instanceDetail{Instance: *sc.Instance, DataBytes: len(sc.Instance.Data), Log: log}
	if !look.data {
		d.Data = nil
	}
	if look.diagram {
		d.Diagram = saga.DiagramOf(log)
	}
	switch {
	case p.json:
		return p.printJSON(d)
	case look.diagram:
		_, err := fmt.Fprint(p.stdout, cleanLines(d.Diagram))
		return err
	}
	if err := p.printAll(sc.Facts); err != nil {
		return err
	}
	p.heading("What happened")
	if err := p.printTable(sagaLogListing.of(log)); err != nil {
		return err
	}
	if look.data {
		p.heading("Data")
		_, err := fmt.Fprintln(p.stdout, shownPayload(d.Data))
		return err
	}
	p.hintNext(o, &sc)
	return nil
}

var sagaLogListing = listing[saga.Entry]{
	[]string{"AT", "STATUS", "STATE", "BY MESSAGE", "ID", "NODE", "NOTE"},
	func(e saga.Entry) []string {
		return []string{ops.Moment(&e.At), string(e.Status), ops.StateChange(&e), e.MessageType, e.MessageID, e.Node, ops.Short(e.Note, 100)}
	},
}
