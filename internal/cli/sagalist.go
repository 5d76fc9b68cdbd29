package cli

import (
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

// instanceFilter is a filter as flags give it.
type instanceFilter struct {
	saga.Filter
	flags *pflag.FlagSet // those of the filter, without its position in the list
}

func (p *program) sagaListCommand() *cobra.Command {
	var f instanceFilter
	f.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.flags.StringVar(&f.Saga, "saga", "", "only instances of this saga")
	f.flags.StringVar((*string)(&f.Status), "status", "", "only instances with this status: "+ops.Words(saga.Statuses))
	f.flags.StringVar(&f.Key, "key", "", "only the instances with this key")
	f.flags.StringVar(&f.Tenant, "tenant", "", "only instances of this tenant")
	cmd := &cobra.Command{Use: "list", Short: "List instances, the latest started first"}
	flags := cmd.Flags()
	flags.AddFlagSet(f.flags)
	flags.Int64Var(&f.Before, "before", 0, "only instances with a lower `number`, for paging")
	return p.lister(cmd, limit{&f.Limit, 100, "instances"}, func(ctx context.Context, store opener.Store) error {
		s := storesOf(store)
		if err := keeps(store, s, ops.Saga); err != nil {
			return err
		}
		return p.sagaList(ctx, s.Sagas, &f)
	}, func() error {
		if f.Status != "" && !slices.Contains(saga.Statuses, f.Status) {
			return usagef("--status is %q; it is one of %s", f.Status, ops.Words(saga.Statuses))
		}
		return nil
	})
}

func (p *program) sagaList(ctx context.Context, store saga.Inspector, f *instanceFilter) error {
	list, err := store.Sagas(ctx, f.Filter)
	if err != nil {
		return err
	}
	empty := ops.NoInstances
	if f.Filter != (saga.Filter{Limit: f.Limit}) {
		empty = ops.NoInstanceMatches
	}
	if more, err := printList(p, list, empty, instanceListing); err != nil || !more {
		return err
	}
	last := list[len(list)-1]
	if len(list) < f.Limit {
		p.hintf("One of them in full: %s", sagaTyped("show", last.ID))
		return nil
	}
	p.hintf("There may be more: %s --limit %d --before %d", typedFlags("waybill saga list", f.flags), f.Limit, last.Number)
	return nil
}

var instanceListing = listing[saga.Instance]{
	[]string{"NUMBER", "SAGA", "KEY", "TENANT", "STATUS", "STATE", "STARTED", "CHANGED", "ERROR"},
	func(in saga.Instance) []string {
		tenant := in.Tenant
		if tenant == waybill.DefaultTenant {
			tenant = ""
		}
		return []string{
			strconv.FormatInt(in.Number, 10), in.Saga, in.Key, tenant, string(in.Status), in.State,
			ops.Moment(&in.StartedAt), ops.Moment(&in.ChangedAt), ops.Short(in.Error, 60),
		}
	},
}
