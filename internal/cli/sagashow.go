package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
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
			return p.withSagas(cmd, func(ctx context.Context, store sagaStore) error { return p.sagaShow(ctx, store, look) })
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

func (p *program) sagaShow(ctx context.Context, store sagaStore, look sagaLook) error {
	in, err := store.Saga(ctx, look.id)
	if err != nil {
		return unknownInstance(look.id, err)
	}
	log, err := sagaLog(ctx, store, look.id)
	if err != nil {
		return err
	}
	d := instanceDetail{Instance: in, DataBytes: len(in.Data), Log: log}
	if look.data {
		if err := noteReveal(ctx, store, look.act, "data", deadletter.Entry{Detail: in.Saga + " " + in.Key}); err != nil {
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

const entriesAtATime = 1000

// sagaLog reads the whole log of an instance.
func sagaLog(ctx context.Context, store saga.Inspector, id saga.ID) ([]saga.Entry, error) {
	log := []saga.Entry{}
	for after := int64(0); ; after = log[len(log)-1].Version {
		part, err := store.SagaLog(ctx, id, after, entriesAtATime)
		if err != nil {
			return nil, err
		}
		log = append(log, part...)
		if len(part) < entriesAtATime {
			return log, nil
		}
	}
}

func (p *program) printInstance(d instanceDetail, data bool) error {
	if err := p.printFields(instanceFields(d)); err != nil {
		return err
	}
	p.heading("What happened")
	rows := make([][]string, len(d.Log))
	for i, e := range d.Log {
		rows[i] = []string{moment(&e.At), string(e.Status), stateChange(e), e.MessageType, e.MessageID, e.Node, short(e.Note, 100)}
	}
	if err := p.printTable([]string{"AT", "STATUS", "STATE", "BY MESSAGE", "ID", "NODE", "NOTE"}, rows); err != nil {
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

func instanceFields(d instanceDetail) [][2]string {
	return [][2]string{
		{"saga", d.Saga},
		{"key", d.Key},
		{"tenant", d.Tenant},
		{"number", strconv.FormatInt(d.Number, 10)},
		{"status", string(d.Status)},
		{"state", d.State},
		{"error", short(d.Error, waybill.MaxErrorLen)},
		{"steps", stepsOf(d.Progress)},
		{"timeouts", strings.Join(slices.Sorted(maps.Keys(d.Progress.Timeouts)), ", ")},
		{"definition", strconv.Itoa(d.Definition)},
		{"version", strconv.FormatInt(d.Version, 10)},
		{"started", moment(&d.StartedAt)},
		{"changed", moment(&d.ChangedAt)},
		{"ended", moment(&d.EndedAt)},
		{"data", plural(d.DataBytes, "byte")},
	}
}

// stepsOf says how far an instance with steps is, and "" of one without.
func stepsOf(pr saga.Progress) string {
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

// stateChange shows the states of an entry, one if it has stayed.
func stateChange(e saga.Entry) string {
	if e.From == e.To || e.From == "" {
		return e.To
	}
	return strings.TrimSpace(e.From + " → " + e.To)
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
