package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/schedule"
)

const usualSchedules = 100

// ofSchedules wraps a list function for a store that must keep schedules.
func ofSchedules(list func(ctx context.Context, s schedule.OperatorStore) error) func(context.Context, opener.Store) error {
	return func(ctx context.Context, store opener.Store) error {
		s := storesOf(store)
		if err := keeps(store, s, ops.Schedule); err != nil {
			return err
		}
		return list(ctx, s.Schedules)
	}
}

// orNoMore is the text for an empty list, of which earlier pages may have been shown.
func orNoMore(paged bool, empty string) string {
	if paged {
		return "There are no more."
	}
	return empty
}

func (p *program) scheduleListCommand() *cobra.Command {
	var after string
	var n int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List recurring schedules by name",
		Long: `List recurring schedules by name. LATE is for how long an occurrence is due that no runner has
enqueued yet; RUNS counts those that were.`,
	}
	cmd.Flags().StringVar(&after, "after", "", "only schedules behind this `name`, for paging")
	return p.lister(cmd, limit{&n, usualSchedules, "schedules"}, ofSchedules(func(ctx context.Context, s schedule.OperatorStore) error {
		list, err := ops.Schedules(ctx, s, after, n)
		if err != nil {
			return err
		}
		if more, err := printList(p, list, orNoMore(after != "", ops.NoSchedules), scheduleListing); err != nil || !more {
			return err
		}
		last := list[len(list)-1].Name
		if len(list) == n {
			p.hintf("There may be more: waybill schedule list --limit %d --after %s", n, quoted(last))
		} else {
			p.hintf("One of them in full: waybill schedule show %s", quoted(last))
		}
		return nil
	}))
}

var scheduleListing = listing[ops.ScheduleRow]{
	[]string{"NAME", "STATUS", "WHEN", "NEXT", "LATE", "LAST", "RUNS", "SKIPPED", "TOPIC"},
	func(r ops.ScheduleRow) []string {
		return []string{
			r.Name, string(r.Status), r.When(), ops.Moment(&r.NextAt), r.Late, ops.Moment(&r.LastAt), ops.Count(r.Executions), ops.Count(r.Skipped), r.Topic,
		}
	},
}

func (p *program) scheduleMessagesCommand() *cobra.Command {
	var place string
	var after *schedule.ScheduledMessage
	var n int
	cmd := &cobra.Command{Use: "messages", Short: "List single messages that wait for their time, the first one due first"}
	cmd.Flags().StringVar(&place, "after", "", "only messages behind this `place`, for paging: the hint below a full page has it")
	return p.lister(cmd, limit{&n, usualSchedules, "messages"}, ofSchedules(func(ctx context.Context, s schedule.OperatorStore) error {
		list, err := s.ScheduledMessages(ctx, after, n)
		if err != nil {
			return err
		}
		if more, err := printList(p, list, orNoMore(after != nil, ops.NoScheduled), scheduledListing); err != nil || !more {
			return err
		}
		if len(list) == n {
			p.hintf("There may be more: waybill schedule messages --limit %d --after %s", n, ops.Place(&list[n-1]))
		}
		return nil
	}), func() (err error) {
		if after, err = ops.ParsePlace(place); err != nil {
			return usagef("--after is %q; take it from the hint below a page", place)
		}
		return nil
	})
}

var scheduledListing = listing[schedule.ScheduledMessage]{
	[]string{"DUE", "ID", "TOPIC", "TYPE", "KEY", "NOT TO BE CANCELLED"},
	func(m schedule.ScheduledMessage) []string {
		note := ""
		if !m.Cancellable {
			note = "enqueued with a delivery time"
		}
		return []string{ops.Moment(&m.DueAt), m.ID, m.Topic, m.Type, m.Key, note}
	},
}
