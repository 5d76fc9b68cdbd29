package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/internal/recording"
)

func (p *program) relayReplayCommand() *cobra.Command {
	var r relayReplay
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Run what a relay has recorded through its decisions again, and show why",
		Long: `Run what "waybill relay --record FILE" has recorded through the relay's decisions again, check that
they are the same, and show the way of messages step by step: what was claimed, sent in which batch, what the
broker answered, and what was stored. No store and no broker is needed.

Keys and tenants are shown by the beginning of their hashes unless they were recorded as they are.
Replay a file with the release that has recorded it.`,
		Args: takes(1),
		RunE: does(func(_ *cobra.Command, args []string) error { return p.relayReplay(args[0], &r) }),
	}
	cmd.Flags().StringVar(&r.filter.ID, "message", "", "the way of the message with this `id`")
	cmd.Flags().StringVar(&r.filter.Topic, "topic", "", "the ways of the messages of a `topic`")
	cmd.Flags().StringVar(&r.since, "from", "", "every step, or those of the messages, from a `time`, or from so long ago (2h)")
	cmd.Flags().StringVar(&r.until, "to", "", "the same up to a `time`")
	return cmd
}

// relayReplay is what to show of a recording.
type relayReplay struct {
	filter       recording.Filter
	since, until string
	from, to     time.Time
}

func (r *relayReplay) shows() bool {
	return r.filter.ID != "" || r.filter.Topic != "" || r.since != "" || r.until != ""
}

func (r *relayReplay) within(t time.Time) bool {
	return !t.Before(r.from) && (r.to.IsZero() || t.Before(r.to))
}

// replayedRelay is the JSON output.
type replayedRelay struct {
	Steps    int            `json:"steps"`
	Restarts int            `json:"restarts"`
	From     time.Time      `json:"from"`
	To       time.Time      `json:"to"`
	Shown    []replayedStep `json:"shown"`
}

type replayedStep struct {
	Step uint64    `json:"step"`
	At   time.Time `json:"at"`
	What []string  `json:"what"`
}

func (p *program) relayReplay(path string, r *relayReplay) (err error) {
	if r.from, err = pointInTime("from", r.since); err != nil {
		return err
	}
	if r.to, err = pointInTime("to", r.until); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	shown := []replayedStep{}
	found := false
	totals, failed := recording.Replay(f, func(s *recording.Step) error {
		if !r.shows() || !r.within(s.At) {
			return nil
		}
		what := s.Lines(&r.filter)
		if len(what) == 0 {
			return nil
		}
		found = found || s.Restart == nil
		step := replayedStep{Step: s.Number, At: s.At.UTC(), What: what}
		if p.json {
			shown = append(shown, step)
			return nil
		}
		return p.printStep(step)
	})
	if failed != nil {
		failed = fmt.Errorf("%s: %w", path, failed)
	}
	if failed != nil && totals.Steps == 0 {
		return failed
	}
	if p.json {
		return errors.Join(p.printJSON(replayedRelay{totals.Steps, totals.Restarts, totals.From.UTC(), totals.To.UTC(), shown}), failed)
	}
	same := ""
	if failed == nil {
		same = "; the relay's decisions are the same"
	}
	_, err = fmt.Fprintf(p.stdout, "Replayed %s, %s to %s%s.\n", ops.Plural(totals.Steps, "step"), ops.Moment(&totals.From), ops.Moment(&totals.To), same)
	switch {
	case r.shows() && !found:
		p.hintf("Nothing in the recording is about that.")
	case !r.shows():
		p.hintf("Show the way of a message with --message ID, of a topic's with --topic, every step with --from and --to.")
	}
	return errors.Join(err, failed)
}

func (p *program) printStep(s replayedStep) error {
	at := s.At.Format("2006-01-02 15:04:05.000Z")
	for _, line := range s.What {
		if _, err := fmt.Fprintf(p.stdout, "%s  %6d  %s\n", at, s.Step, clean(line)); err != nil {
			return err
		}
		at = "                        "
	}
	return nil
}
