package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadGroupsCommand() *cobra.Command {
	var n int
	return p.lister(&cobra.Command{
		Use:   "groups",
		Short: "Show what fails alike, the largest group first",
		Long: `Show the groups of open dead letters: those of one relay's topic or one consumer, and of one
type, whose errors differ in ids and numbers only. TREND is the letters that have arrived in
each of the last 24 hours, this hour last: a dot for none, and the higher the more.`,
	}, limit{&n, 20, "groups"}, func(ctx context.Context, store opener.Store) error {
		groups, err := store.DeadLetterGroups(ctx, n)
		if err != nil {
			return err
		}
		if more, err := printList(p, groups, ops.NoLetters, groupListing); err != nil || !more {
			return err
		}
		if len(groups) == n {
			p.hintf("There may be more: waybill dead groups --limit %d", min(10*n, maxListed))
		}
		p.hintf("The newest of the largest: waybill dead show %d", groups[0].Newest)
		p.hintf("When the cause is fixed:  waybill dead replay --group %s", groups[0].Fingerprint)
		return nil
	})
}

var groupListing = listing[deadletter.Group]{
	[]string{"GROUP", "OPEN", "TREND", "LAST FAILED", "FROM", "TYPE", "ERROR"},
	func(g deadletter.Group) []string {
		return []string{g.Fingerprint, ops.Count(g.Open), trend(g.Trend[:]), ops.Moment(&g.LastFailed), ops.GroupFrom(&g), g.Type, ops.Short(g.Error, 60)}
	},
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
