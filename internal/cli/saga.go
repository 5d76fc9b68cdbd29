package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/saga"
)

func (p *program) sagaCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "saga",
		Short: "Look into the instances of sagas, and help those that are stuck",
		Long: `Look into the instances of sagas: processes that take several messages. "list" shows them, and
"show" what has happened to one. When the cause is mended, "resume" lets one that is stuck try
its compensation once more. "compensate" makes one that runs undo its steps.`,
		RunE: needsSubcommand,
	}
	cmd.AddCommand(p.sagaListCommand(), p.sagaShowCommand(), p.sagaResumeCommand(), p.sagaCompensateCommand())
	return cmd
}

// withSagas runs fn on a store that keeps sagas.
func (p *program) withSagas(cmd *cobra.Command, fn func(ctx context.Context, store sagaStore) error) error {
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		sagas, ok := store.(sagaStore)
		if !ok {
			return fmt.Errorf("the store %s keeps no sagas; PostgreSQL, MariaDB, MySQL and SQLite do", store.Address())
		}
		return fn(cmd.Context(), sagas)
	})(cmd, nil)
}

// sagaStore is a store that keeps sagas.
type sagaStore interface {
	opener.Store
	saga.OperatorStore
}

// sagaArgs are the arguments that name an instance.
const sagaArgs = "SAGA KEY"

// addTenant adds the flag that goes with them.
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

// unknownInstance replaces what a store says about an instance that it does not know.
func unknownInstance(id saga.ID, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no instance %s: it never was, or its retention is over; \"waybill saga list\" shows what there is", sagaName(id))
	}
	return err
}
