package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

func (p *program) relayStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which relays run, who owns which lanes, and what waits for them",
		Args:  cobra.NoArgs,
		RunE: does(p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
			return p.relayStatus(cmd.Context(), store)
		})),
	}
}

// relayStatus is that as programs get it.
type relayStatus struct {
	Relays  []relay.NodeState `json:"relays"`
	Backlog []outbox.Stats    `json:"backlog"` // Pending and Waiting
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
	if err := p.printRelays(st.Relays); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout)
	if len(st.Backlog) == 0 {
		_, err = fmt.Fprintln(p.stdout, "Nothing waits to be published.")
		return err
	}
	if err := p.printStats(st.Backlog); err != nil {
		return err
	}
	if noneAlive(st.Relays) {
		p.hintf("No relay is alive, so nothing is published: start one with waybill relay")
	}
	return nil
}

func noneAlive(relays []relay.NodeState) bool {
	for _, n := range relays {
		if n.Alive {
			return false
		}
	}
	return true
}

func (p *program) printRelays(relays []relay.NodeState) error {
	rows := make([][]string, len(relays))
	for i, n := range relays {
		name, state := n.Node, "alive"
		switch {
		case n.Node == "":
			name, state = "-", "no owner"
		case !n.Alive:
			state = "dead"
		}
		rows[i] = []string{name, state, thousands(len(n.Lanes)), ranges(n.Lanes), moment(&n.Since), moment(&n.StartedAt), moment(&n.ExpiresAt)}
	}
	return p.printTable([]string{"RELAY", "STATE", "LANES", "WHICH", "SINCE", "STARTED", "LEASE UNTIL"}, rows)
}

const shownRanges = 40 // characters

// ranges writes rising numbers briefly: 0-3, 7, 9-63.
func ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := strconv.Itoa(numbers[i])
		if j > i {
			part += "-" + strconv.Itoa(numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return short(strings.Join(parts, ", "), shownRanges)
}
