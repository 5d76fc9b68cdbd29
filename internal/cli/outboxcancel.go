package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
)

func (p *program) outboxCancelCommand() *cobra.Command {
	var id outbox.Identity
	var why string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a message that is not published yet",
		Long: `Cancel a message that is not published yet: one that is Pending, Waiting or Scheduled, for every
destination that it has not been published to. It becomes a dead letter that is discarded, reason
cancelled; what comes after it in its key goes on. "waybill dead restore" and "waybill dead requeue"
take that back.

A message that is due may be in flight: a relay that has claimed it may still publish it once. The
output says so. Ids are unique for each source and tenant: name them if several messages have the id.`,
		Args: takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error {
			act, err := p.act(cmd, why)
			if err != nil {
				return err
			}
			id.ID = args[0]
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.outboxCancel(cmd.Context(), store, id, act)
			})(cmd, args)
		}),
	}
	cmd.Flags().StringVar(&id.Source, "source", "", "the message of this source")
	cmd.Flags().StringVar(&id.Tenant, "tenant", "", "the message of this tenant")
	addWhy(cmd.Flags(), &why)
	return cmd
}

func (p *program) outboxCancel(ctx context.Context, store opener.Store, id outbox.Identity, act deadletter.Act) error {
	states, err := store.MessageStates(ctx, id.ID)
	if err != nil {
		return err
	}
	if id, err = cancellable(states, id); err != nil {
		return err
	}
	done, err := store.CancelMessage(ctx, id, act)
	switch {
	case err != nil:
		return err
	case done.Removed == 0: // since it was looked up
		return errors.New(clean(fmt.Sprintf("message %s was published, dead-lettered or cancelled meanwhile", id.ID)))
	case p.json:
		return p.printJSON(done)
	}
	text := "Cancelled message " + id.ID + "."
	if done.InFlight {
		text = "Cancelled message " + id.ID + ". A relay may have claimed it before: it may be published once."
	}
	if _, err := fmt.Fprintln(p.stdout, clean(text)); err != nil {
		return err
	}
	p.hintf("What is known of it: waybill outbox show %s", quoted(id.ID))
	return nil
}

// cancellable returns the identity of the one message among states, of which the id and perhaps source
// and tenant are given, that is not published yet.
func cancellable(states []inspect.MessageState, given outbox.Identity) (outbox.Identity, error) {
	var found []outbox.Identity
	var elsewhere []string
	for _, s := range states {
		id := outbox.Identity{Source: s.Source, Tenant: s.Tenant, ID: s.ID}
		switch {
		case given.Source != "" && given.Source != s.Source, given.Tenant != "" && given.Tenant != s.Tenant:
		case s.Status != inspect.Pending && s.Status != inspect.Waiting && s.Status != inspect.Scheduled:
			elsewhere = append(elsewhere, string(s.Status))
		case !slices.Contains(found, id):
			found = append(found, id)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var of []string
		for _, id := range found {
			of = append(of, fmt.Sprintf("--source %s --tenant %s", quoted(id.Source), quoted(id.Tenant)))
		}
		return given, usagef("several messages have the id %s; add one of: %s", clean(given.ID), clean(strings.Join(of, ", ")))
	case len(elsewhere) > 0:
		return given, errors.New(clean(fmt.Sprintf("message %s cannot be cancelled: it is %s", given.ID, strings.Join(slices.Compact(elsewhere), ", "))))
	}
	return given, errors.New(clean(fmt.Sprintf("no message %s is in the outbox: it never was, or its retention is over", given.ID)))
}
