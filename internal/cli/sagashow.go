package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

// sagaLook says what of an instance is to be shown.
type sagaLook struct {
	id            saga.ID
	data, diagram bool
	act           deadletter.Act
}

func (p *program) sagaShowCommand() *cobra.Command {
	var look sagaLook
	var why string
	cmd := &cobra.Command{
		Use:   "show " + sagaArgs,
		Short: "Show one instance with its history",
		Long: `Show one instance: where it stands, and every change that led there. Its data may be
confidential: it is shown with --data, and the audit log keeps who has looked. --diagram draws
the way of the instance, as text for Mermaid, instead.`,
		Args: takes(2),
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			look.id.Saga, look.id.Key = args[0], args[1]
			if look.data && look.diagram {
				return usagef("--data and --diagram do not go together")
			}
			if look.act, err = p.act(cmd, why); err != nil {
				return err
			}
			return p.withStores(cmd, ops.Saga, func(ctx context.Context, s ops.Stores) error { return p.sagaShow(ctx, s, look) })
		}),
	}
	flags := cmd.Flags()
	addTenant(flags, &look.id.Tenant)
	flags.BoolVar(&look.data, "data", false, "show the data, and note that in the audit log")
	flags.BoolVar(&look.diagram, "diagram", false, "draw the way of the instance, as text for Mermaid")
	addWhy(flags, &why)
	return cmd
}

// instanceDetail is one instance as programs get it. Data is there with --data only.
type instanceDetail struct {
	saga.Instance
	DataBytes int          `json:"data_bytes"`
	Log       []saga.Entry `json:"log"`
	Diagram   string       `json:"diagram,omitempty"` // with --diagram only
}

func (p *program) sagaShow(ctx context.Context, s ops.Stores, look sagaLook) error {
	in, err := s.Sagas.Saga(ctx, look.id)
	if err != nil {
		return unknownInstance(look.id, err)
	}
	log, err := ops.SagaLog(ctx, s.Sagas, look.id)
	if err != nil {
		return err
	}
	d := instanceDetail{Instance: in, DataBytes: len(in.Data), Log: log}
	if look.data {
		if err := s.Reveal(ctx, look.act, "data", deadletter.Entry{Detail: in.Saga + " " + in.Key}); err != nil {
			return err
		}
	} else {
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
	return p.printInstance(d, look.data)
}

func (p *program) printInstance(d instanceDetail, data bool) error {
	if err := p.printAll(ops.InstanceFacts(&d.Instance, d.DataBytes)); err != nil {
		return err
	}
	p.heading("What happened")
	if _, err := printList(p, d.Log, "", sagaLogListing); err != nil {
		return err
	}
	if data {
		p.heading("Data")
		_, err := fmt.Fprintln(p.stdout, shownPayload(d.Data))
		return err
	}
	p.hintInstance(d.Instance)
	return nil
}

var sagaLogListing = listing[saga.Entry]{
	[]string{"AT", "STATUS", "STATE", "BY MESSAGE", "ID", "NODE", "NOTE"},
	func(e saga.Entry) []string {
		return []string{ops.Moment(&e.At), string(e.Status), ops.StateChange(&e), e.MessageType, e.MessageID, e.Node, ops.Short(e.Note, 100)}
	},
}

// hintInstance names what can be done with an instance.
func (p *program) hintInstance(in saga.Instance) {
	switch {
	case in.Status == saga.Stuck:
		p.hintf("\nWhen the cause is mended: %s    Data: --data", sagaTyped("resume", in.ID))
	case in.Status == saga.Running && in.Progress.Turn > 0:
		p.hintf("\nUndo its steps: %s    Data: --data", sagaTyped("compensate", in.ID))
	}
}
