package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/observe"
)

// operand is how the objects of a verb are typed and shown.
type operand struct {
	args    []string // what they are called, as in NAME
	flags   func(*pflag.FlagSet)
	read    func(args []string) (ops.Target, error)
	name    func(ops.Target) string                    // as in "schedule nightly"
	unknown func(ops.Target, error) error              // replaces an error about something that does not exist
	typed   func(verb string, t ops.Target) string     // the command that does it
	hint    func(ops.Target, ops.Result) string        // what to do next, "" for nothing
	row     func(ops.Verb, ops.Target, ops.Result) any // for programs
}

// operatorSource is the source of messages by which an operator resumes an instance.
const operatorSource = "waybill-operator"

// storesOf returns what operators see and change in a store.
func storesOf(store opener.Store) ops.Stores {
	s := ops.Of(store)
	s.Source, s.Observer = operatorSource, observe.LogTo(slog.New(slog.NewTextHandler(io.Discard, nil)))
	return s
}

// keeps refuses a noun that a store does not keep.
func keeps(store opener.Store, s ops.Stores, noun ops.Noun) error {
	switch {
	case (noun == ops.Schedule || noun == ops.Scheduled) && s.Schedules == nil:
		return usagef("%s keeps no schedules", store.Address())
	case noun == ops.Saga && s.Sagas == nil:
		return fmt.Errorf("the store %s keeps no sagas; PostgreSQL, MariaDB, MySQL and SQLite do", store.Address())
	}
	return nil
}

// withStores is withTables for a store that keeps a noun.
func (p *program) withStores(cmd *cobra.Command, noun ops.Noun, fn func(ctx context.Context, s ops.Stores) error) error {
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		s := storesOf(store)
		if err := keeps(store, s, noun); err != nil {
			return err
		}
		return fn(cmd.Context(), s)
	})(cmd, nil)
}

// verbCommand is the command, of the given name, of a verb that is used on one thing.
func (p *program) verbCommand(name string, v ops.Verb, o operand) *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use:   name + " " + strings.Join(o.args, " "),
		Short: v.Short,
		Long:  wrapped(v.Help()),
		Args:  takes(len(o.args)),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			t, err := o.read(args)
			if err != nil {
				return err
			}
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			return p.withStores(cmd, v.Noun, func(ctx context.Context, s ops.Stores) error {
				r, err := v.Do(ctx, s, t, act)
				if err != nil {
					return o.problem(v, t, err)
				}
				return p.printResult(v, o, t, r)
			})
		}),
	}
	if o.flags != nil {
		o.flags(cmd.Flags())
	}
	addWhy(cmd.Flags(), &why)
	return cmd
}

// problem says why nothing was changed.
func (o operand) problem(v ops.Verb, t ops.Target, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return o.unknown(t, err)
	}
	reason, _ := ops.Refused(err)
	if reason == "" || waybill.IsUnavailable(err) {
		return err
	}
	if waybill.IsConflict(err) {
		reason += ": " + o.typed("show", t)
	}
	return errors.New(clean(v.Undone(o.name(t), reason)))
}

// printResult fails if what was to be changed does not exist.
func (p *program) printResult(v ops.Verb, o operand, t ops.Target, r ops.Result) error {
	if p.json {
		if err := p.printJSON(o.row(v, t, r)); err != nil {
			return err
		}
	}
	switch {
	case !r.Done && v.Missing:
		return o.unknown(t, waybill.ErrNotFound)
	case p.json:
		return nil
	}
	if _, err := fmt.Fprintln(p.stdout, clean(v.Told(o.name(t), r))); err != nil {
		return err
	}
	if hint := o.hint(t, r); hint != "" {
		p.hintf("%s", hint)
	}
	return nil
}

const helpWidth = 100

// wrapped breaks a help text into lines.
func wrapped(text string) string {
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			width = n
		case width+1+n > helpWidth:
			b.WriteByte('\n')
			width = n
		default:
			b.WriteByte(' ')
			width += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
