package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/observe"
)

// replayOrder is a requested bulk replay.
type replayOrder struct {
	letterFilter
	plan                     deadletter.Plan
	all, yes, dryRun, detach bool
	act                      deadletter.Act
	cfg                      *config.Config
}

func (p *program) deadReplayCommand() *cobra.Command {
	var o replayOrder
	var why string
	cmd := &cobra.Command{
		Use:   "replay {FILTER | --all}",
		Short: "Requeue many dead letters at a limited rate",
		Long: `Requeue every open letter that a filter matches: one per second at first, then 2, 5, 10 … every
ten seconds, up to --rate. It stops by itself when too much of what was requeued is dead again.
What it would do is counted first, and you are asked; --yes answers that, --dry-run stops
there.

The replay is kept in the store. This command drives it and shows how far it is until it has
ended. Interrupted (Ctrl-C), it leaves the replay running: every relay and every other "waybill
dead replay" on the store goes on with it. "waybill dead replay-cancel" ends it.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, args []string) (err error) {
			if err := o.complete(); err != nil {
				return err
			}
			if o.act, err = p.act(cmd, why); err != nil {
				return err
			}
			if o.cfg, err = p.settings(cmd); err != nil {
				return err
			}
			return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
				return p.deadReplay(cmd.Context(), store, &o)
			})(cmd, args)
		}),
	}
	o.addTo(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&o.all, "all", false, "every open letter")
	flags.Float64Var(&o.plan.Rate, "rate", deadletter.DefaultReplayRate, "the most letters per second")
	flags.Float64Var(&o.plan.MaxFailureRatio, "max-failure-ratio", deadletter.DefaultMaxFailureRatio, "stop when more than this `share` of what was requeued is dead again; 1: never")
	flags.BoolVar(&o.yes, "yes", false, "do not ask")
	flags.BoolVar(&o.dryRun, "dry-run", false, "count what matches, and start nothing")
	flags.BoolVar(&o.detach, "detach", false, "leave the replay to the relays at once")
	addWhy(flags, &why)
	return cmd
}

func (o *replayOrder) complete() error {
	switch {
	case !o.given() && !o.all:
		return usagef("give a filter such as --group, or --all")
	case o.given() && o.all:
		return usagef("--all goes without a filter")
	}
	if err := o.letterFilter.complete(); err != nil {
		return err
	}
	o.plan.Filter = o.Filter
	if o.plan.Rate == 0 || o.plan.MaxFailureRatio == 0 { // which mean the defaults in a plan
		return usagef("--rate and --max-failure-ratio must be above 0")
	}
	return flagError(o.plan.Check())
}

func (p *program) deadReplay(ctx context.Context, store opener.Store, o *replayOrder) error {
	preview, err := store.PreviewReplay(ctx, o.plan.Filter, o.cfg.Duration("inbox.retention"))
	if err != nil {
		return err
	}
	if o.dryRun && p.json {
		return p.printJSON(preview)
	}
	if preview.Letters == 0 || o.dryRun {
		return p.printPreview(preview, o)
	}
	if !p.json {
		fmt.Fprintln(p.stderr, previewText(preview, o))
	}
	if err := p.confirm(o.yes, "replay "+ops.Plural(preview.Letters, "dead letter")); err != nil {
		return err
	}
	number, err := store.StartReplay(ctx, o.plan, o.act)
	if err != nil {
		return err
	}
	if o.detach {
		return p.printStarted(number)
	}
	return p.driveReplay(ctx, store, number, o.cfg)
}

func (p *program) printPreview(preview deadletter.Preview, o *replayOrder) error {
	if p.json { // nothing matches
		return p.printJSON(preview)
	}
	text := previewText(preview, o)
	if preview.Letters == 0 {
		text = fmt.Sprintf(ops.NothingToBe, "replayed")
	}
	_, err := fmt.Fprintln(p.stdout, text)
	return err
}

func previewText(preview deadletter.Preview, o *replayOrder) string {
	return strings.TrimSpace(ops.PreviewText(&preview, o.plan.Rate) + "\n" + ops.PreviewRisk(&preview, o.cfg.Duration("inbox.retention")))
}

func (p *program) printStarted(number int64) error {
	if p.json {
		return p.printJSON(map[string]int64{"number": number})
	}
	_, err := fmt.Fprintf(p.stdout, "Replay %d has started; relays drive it.\n", number)
	p.hintf("How far it is: waybill dead replays    End it: waybill dead replay-cancel %d", number)
	return err
}

const replayLook = 500 * time.Millisecond // how often the progress of a replay is shown

// driveReplay drives a replay until it has ended, or ctx has.
func (p *program) driveReplay(ctx context.Context, store opener.Store, number int64, cfg *config.Config) error {
	replayer, err := deadletter.NewReplayer(store, deadletter.ReplayerConfig{Observer: observe.LogTo(p.logger(cfg))})
	if err != nil {
		return err
	}
	driving, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = replayer.Run(driving) // it returns nil: failures are logged and retried
	}()
	r, err := p.watchReplay(ctx, store, number)
	stop()
	<-done
	p.endProgress()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		p.hintf("Replay %d goes on in any relay. How far it is: waybill dead replays    End it: waybill dead replay-cancel %d", number, number)
	}
	if err != nil {
		return err
	}
	return p.printEnded(r)
}

// watchReplay shows the progress of a replay until it has ended.
func (p *program) watchReplay(ctx context.Context, store opener.Store, number int64) (deadletter.Replay, error) {
	tick := time.NewTicker(replayLook)
	defer tick.Stop()
	for {
		r, err := store.Replay(ctx, number)
		if err != nil && !waybill.IsUnavailable(err) || ctx.Err() != nil {
			return r, errors.Join(err, ctx.Err())
		}
		if err == nil && r.State != deadletter.Running {
			return r, nil
		}
		if err == nil {
			p.progressf("Replay %d: %s", number, ops.Progress(&r))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// printEnded prints how a replay has ended, and fails unless everything was
// requeued.
func (p *program) printEnded(r deadletter.Replay) error {
	if p.json {
		if err := p.printJSON(r); err != nil {
			return err
		}
	} else if _, err := fmt.Fprintf(p.stdout, "Replay %d is %s: %s.\n", r.Number, r.State, ops.Progress(&r)); err != nil {
		return err
	}
	if r.State == deadletter.Done {
		return nil
	}
	if r.Problem != "" {
		return errors.New(clean(r.Problem))
	}
	return silent
}
