package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

const usualGroups = 20

func (p *program) deadGroupsCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Show what fails alike, the largest group first",
		Long: `Show the groups of open dead letters: those of one relay's topic or one consumer, and of one
type, whose errors differ in ids and numbers only. TREND is the letters that have arrived in
each of the last 24 hours, this hour last: a dot for none, and the higher the more.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := checkLimit(limit); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadGroups(cmd.Context(), store, limit)
			})(cmd, args)
		}),
	}
	addLimit(cmd.Flags(), &limit, usualGroups, "groups")
	return cmd
}

func (p *program) deadGroups(ctx context.Context, store opener.Store, limit int) error {
	groups, err := store.DeadLetterGroups(ctx, limit)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(append([]deadletter.Group{}, groups...))
	}
	if len(groups) == 0 {
		_, err := fmt.Fprintln(p.stdout, "There are no dead letters.")
		return err
	}
	rows := make([][]string, len(groups))
	for i, g := range groups {
		rows[i] = []string{g.Fingerprint, thousands(g.Open), trend(g.Trend[:]), moment(&g.LastFailed), groupFrom(g), g.Type, short(g.Error, 60)}
	}
	if err := p.printTable([]string{"GROUP", "OPEN", "TREND", "LAST FAILED", "FROM", "TYPE", "ERROR"}, rows); err != nil {
		return err
	}
	if len(groups) == limit {
		p.hintf("There may be more: waybill dead groups --limit %d", min(10*limit, maxListed))
	}
	first := groups[0]
	p.hintf("The newest of the largest: waybill dead show %d", first.Newest)
	p.hintf("When the cause is mended:  waybill dead replay --group %s", first.Fingerprint)
	return nil
}

// groupFrom says who has given up, and where the messages were going.
func groupFrom(g deadletter.Group) string {
	if g.Origin == deadletter.FromRelay {
		return "relay to " + g.Topic
	}
	return "consumer " + g.Consumer
}

// trend draws numbers as bars of eight heights, and a dot for none.
func trend(counts []int) string {
	const bars = "▁▂▃▄▅▆▇█"
	heights := []rune(bars)
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range counts {
		if n <= 0 {
			b.WriteRune('·')
			continue
		}
		b.WriteRune(heights[(n*len(heights)-1)/most])
	}
	return b.String()
}
