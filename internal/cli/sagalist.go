package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/saga"
)

const usualInstances = 100

// instanceFilter is a filter as flags give it.
type instanceFilter struct {
	saga.Filter
	flags *pflag.FlagSet // those of the filter, without its place in the list
}

func (p *program) sagaListCommand() *cobra.Command {
	var f instanceFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List instances, the latest started first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if f.Status != "" && !slices.Contains(saga.Statuses, f.Status) {
				return usagef("--status is %q; it is one of %s", f.Status, sagaStatusWords())
			}
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return p.withSagas(cmd, func(ctx context.Context, store sagaStore) error { return p.sagaList(ctx, store, &f) })
		}),
	}
	f.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.flags.StringVar(&f.Saga, "saga", "", "only instances of this saga")
	f.flags.StringVar((*string)(&f.Status), "status", "", "only instances with this status: "+sagaStatusWords())
	f.flags.StringVar(&f.Key, "key", "", "only the instances with this key")
	f.flags.StringVar(&f.Tenant, "tenant", "", "only instances of this tenant")
	flags := cmd.Flags()
	flags.AddFlagSet(f.flags)
	flags.Int64Var(&f.Before, "before", 0, "only instances with a lower `number`, for paging")
	addLimit(flags, &f.Limit, usualInstances, "instances")
	return cmd
}

func sagaStatusWords() string {
	var words []string
	for _, s := range saga.Statuses {
		words = append(words, string(s))
	}
	return strings.Join(words, ", ")
}

func (p *program) sagaList(ctx context.Context, store sagaStore, f *instanceFilter) error {
	list, err := store.Sagas(ctx, f.Filter)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]saga.Instance{}, list...))
	}
	if len(list) == 0 {
		text := "There are no instances of sagas."
		if f.Filter != (saga.Filter{Limit: f.Limit}) {
			text = "No instance matches."
		}
		_, err := fmt.Fprintln(p.stdout, text)
		return err
	}
	rows := make([][]string, len(list))
	for i, in := range list {
		rows[i] = instanceColumns(in)
	}
	if err := p.printTable([]string{"NUMBER", "SAGA", "KEY", "TENANT", "STATUS", "STATE", "STARTED", "CHANGED", "ERROR"}, rows); err != nil {
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

func instanceColumns(in saga.Instance) []string {
	tenant := in.Tenant
	if tenant == waybill.DefaultTenant {
		tenant = ""
	}
	return []string{
		strconv.FormatInt(in.Number, 10), in.Saga, in.Key, tenant, string(in.Status), in.State,
		moment(&in.StartedAt), moment(&in.ChangedAt), short(in.Error, 60),
	}
}
