package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) relayStatusCommand() *cobra.Command {
	return p.repeats(&cobra.Command{
		Use:   "status",
		Short: "Show which relays run, who owns which lanes, and what waits for them",
		Args:  cobra.NoArgs,
	}, p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		return p.relayStatus(cmd.Context(), store)
	}))
}

// relayStatus is the JSON output.
type relayStatus struct {
	Relays  []inspect.RelayState `json:"relays"`
	Backlog []inspect.Stats      `json:"backlog"` // Pending and Waiting
}

func (p *program) relayStatus(ctx context.Context, store opener.Store) (err error) {
	var st relayStatus
	if st.Relays, err = store.RelayStates(ctx); err != nil {
		return err
	}
	if st.Backlog, err = store.OutboxBacklog(ctx); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(st)
	}
	if err := p.printTable(relayListing.of(st.Relays)); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	if more, err := printList(p, st.Backlog, ops.NothingPending, statsListing); err != nil || !more {
		return err
	}
	if !ops.AnyAlive(st.Relays) {
		p.hintf("No relay is alive, so nothing is published: start one with waybill relay")
	}
	return nil
}

const shownRanges = 40 // characters

var relayListing = listing[inspect.RelayState]{
	[]string{"RELAY", "STATE", "LANES", "WHICH", "SINCE", "STARTED", "LEASE UNTIL"},
	func(n inspect.RelayState) []string {
		return []string{
			cmp.Or(n.Node, "-"), ops.RelayState(&n), ops.Count(len(n.Lanes)), ops.Short(ops.Ranges(n.Lanes), shownRanges),
			ops.Moment(&n.Since), ops.Moment(&n.StartedAt), ops.Moment(&n.ExpiresAt),
		}
	},
}
