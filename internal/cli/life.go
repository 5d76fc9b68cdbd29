package cli

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) outboxShow(cmd *cobra.Command, store opener.Store, args []string) error {
	l, err := storesOf(store).Life(cmd.Context(), args[0], true)
	if err != nil {
		return err
	}
	if l.Unknown() {
		return fmt.Errorf("there is no message with the id %q: it never was, or its retention is over", args[0])
	}
	if p.json {
		return p.printJSON(l)
	}
	for i := range l.States {
		if err := p.printAll(ops.StateFacts(&l.States[i])); err != nil {
			return err
		}
		fmt.Fprintln(p.stdout)
	}
	if err := p.printTable(eventListing.of(l.Events())); err != nil {
		return err
	}
	for _, letter := range l.Letters {
		if letter.State == deadletter.Open {
			p.hintf("Why it is dead: waybill dead show %d", letter.Number)
		}
	}
	return nil
}

var eventListing = listing[ops.Event]{
	[]string{"WHEN", "WHAT", "DETAIL"},
	func(e ops.Event) []string {
		return []string{cmp.Or(ops.Moment(&e.At), "-"), e.What, ops.Short(e.Detail, 120)}
	},
}
