package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

func (p *program) sagaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "saga",
		Short: "Look into the instances of sagas, and help those that are stuck",
		Long: `Look into the instances of sagas: processes that take several messages. "list" shows them, and
"show" what has happened to one. When the cause is fixed, "resume" lets one that is stuck try
its compensation once more. "compensate" makes one that runs undo its steps.`,
		RunE: needsSubcommand,
	}
	cmd.AddCommand(p.sagaListCommand(), p.sagaShowCommand())
	for _, v := range ops.Verbs {
		if v.Noun == ops.Saga {
			cmd.AddCommand(p.verbCommand(v.Name, v, sagaOperand()))
		}
	}
	return cmd
}

// sagaOperand returns an operand that keeps the tenant of its command.
func sagaOperand() operand {
	var tenant string
	return operand{
		args:  strings.Fields(sagaArgs),
		flags: func(flags *pflag.FlagSet) { addTenant(flags, &tenant) },
		read: func(args []string) (ops.Target, error) {
			return ops.Target{Instance: saga.ID{Tenant: tenant, Saga: args[0], Key: args[1]}}, nil
		},
		name:    func(t ops.Target) string { return sagaName(t.Instance) },
		unknown: func(t ops.Target, err error) error { return unknownInstance(t.Instance, err) },
		typed:   func(verb string, t ops.Target) string { return sagaTyped(verb, t.Instance) },
		hint:    func(t ops.Target, _ ops.Result) string { return "See how far it is: " + sagaTyped("show", t.Instance) },
		row: func(v ops.Verb, t ops.Target, _ ops.Result) any {
			return struct {
				saga.ID
				Action string `json:"action"`
			}{t.Instance, v.Name}
		},
	}
}

// sagaArgs are the arguments that name an instance.
const sagaArgs = "SAGA KEY"

// addTenant adds the flag that accompanies them.
func addTenant(flags *pflag.FlagSet, tenant *string) {
	flags.StringVar(tenant, "tenant", waybill.DefaultTenant, "the instance's tenant")
}

// sagaName is an instance as a person names it.
func sagaName(id saga.ID) string {
	name := id.Saga + " " + id.Key
	if id.Tenant != waybill.DefaultTenant {
		name += " of tenant " + id.Tenant
	}
	return clean(name)
}

// sagaTyped is the command line that does something with an instance.
func sagaTyped(command string, id saga.ID) string {
	line := "waybill saga " + command + " " + quoted(id.Saga) + " " + quoted(id.Key)
	if id.Tenant != waybill.DefaultTenant {
		line += " --tenant " + quoted(id.Tenant)
	}
	return line
}

// unknownInstance replaces a store's error about an instance that it does not know.
func unknownInstance(id saga.ID, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no instance %s: it never was, or its retention is over; \"waybill saga list\" shows what there is", sagaName(id))
	}
	return err
}
