package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) deadListCommand() *cobra.Command {
	var f letterFilter
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead letters, the oldest first",
		Args:  cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) error {
			if err := f.complete(); err != nil {
				return err
			}
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadList(cmd.Context(), store, &f)
			})(cmd, args)
		}),
	}
	f.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar((*string)(&f.State), "state", "", "letters that are open, resolved or discarded (default open)")
	flags.BoolVar(&f.Newest, "newest", false, "the newest first")
	flags.Int64Var(&f.After, "after", 0, "only letters behind the one with this `number`, for paging")
	addLimit(flags, &f.Limit, deadletter.DefaultLimit, "letters")
	return cmd
}

// letterRow is a letter as programs get it.
type letterRow struct {
	deadletter.Letter
	MessageID string `json:"message_id"`
	Topic     string `json:"topic"`
	Type      string `json:"type"`
	Source    string `json:"source"`
	Tenant    string `json:"tenant"`
	Key       string `json:"key,omitempty"`
}

func letterRowOf(l deadletter.Letter) letterRow {
	m := &l.Message
	return letterRow{Letter: l, MessageID: m.ID, Topic: m.Address(), Type: m.Type, Source: m.Source, Tenant: m.Tenant, Key: m.Key}
}

func (p *program) deadList(ctx context.Context, store opener.Store, f *letterFilter) error {
	letters, err := store.DeadLetters(ctx, f.Filter)
	if err != nil {
		return err
	}
	if p.json {
		rows := make([]letterRow, len(letters))
		for i, l := range letters {
			rows[i] = letterRowOf(l)
		}
		return p.printJSON(rows)
	}
	if f.TextAlone() {
		p.hintf("The text was looked for in the newest %s letters; --group or --since looks in all.", thousands(deadletter.TextReach))
	}
	if len(letters) == 0 {
		return p.noLetters(f)
	}
	rows := make([][]string, len(letters))
	for i, l := range letters {
		rows[i] = letterColumns(l)
	}
	if err := p.printTable([]string{"NUMBER", "FROM", "TOPIC", "ID", "REASON", "ATTEMPTS", "LAST FAILED", "ERROR"}, rows); err != nil {
		return err
	}
	p.hintAfterList(letters, f)
	return nil
}

func (p *program) noLetters(f *letterFilter) error {
	text := "There are no dead letters."
	if f.given() || f.After > 0 {
		text = "No dead letter matches."
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

func (p *program) hintAfterList(letters []deadletter.Letter, f *letterFilter) {
	last := letters[len(letters)-1].Number
	if len(letters) < f.Limit {
		p.hintf("One of them in full: waybill dead show %d", last)
		return
	}
	more := f.typed("waybill dead list")
	if f.State != "" {
		more += " --state " + string(f.State)
	}
	if f.Newest {
		more += " --newest"
	}
	p.hintf("There may be more: %s --limit %d --after %d", more, f.Limit, last)
}

func letterColumns(l deadletter.Letter) []string {
	return []string{
		strconv.FormatInt(l.Number, 10), fromWhom(l), l.Message.Address(), l.Message.ID, strings.Join(conditions(l), ", "),
		thousands(l.Attempts), moment(&l.LastFailed), short(l.Error, 60),
	}
}

// fromWhom says who has given up.
func fromWhom(l deadletter.Letter) string {
	return strings.TrimSpace(string(l.Origin) + " " + l.Consumer + l.Destination)
}

// conditions are the reason of a letter, and what else holds of it.
func conditions(l deadletter.Letter) []string {
	list := []string{string(l.Reason)}
	if l.Failed {
		list = append(list, "failed for good")
	}
	switch {
	case l.Requeued:
		list = append(list, "requeued")
	case l.State != "" && l.State != deadletter.Open:
		list = append(list, string(l.State))
	}
	if l.Parks {
		list = append(list, fmt.Sprintf("parks its key with %d behind", l.Behind))
	}
	return list
}
