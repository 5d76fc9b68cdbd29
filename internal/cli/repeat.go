package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/loop"
)

// clearScreen empties a terminal and goes to its first line.
const clearScreen = "\x1b[H\x1b[2J"

const (
	usualPause = 2 * time.Second
	leastPause = 100 * time.Millisecond
)

// repeats makes cmd show something, once, or with --watch again and again until it is interrupted.
func (p *program) repeats(cmd *cobra.Command, show func(*cobra.Command, []string) error) *cobra.Command {
	var every time.Duration
	cmd.Flags().DurationVar(&every, "watch", 0, "show it again after each such `duration`, until interrupted")
	cmd.Flags().Lookup("watch").NoOptDefVal = usualPause.String()
	cmd.RunE = does(func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("watch"):
			return show(cmd, args)
		case every < leastPause:
			return usagef("--watch is %v, the minimum is %v", every, leastPause)
		}
		p.oneLine = true
		return p.repeat(cmd.Context(), every, func() error { return show(cmd, args) })
	})
	return cmd
}

// repeat shows something until ctx is done. A store that is away for a while does not end it, but for the first time.
func (p *program) repeat(ctx context.Context, every time.Duration, show func() error) error {
	for first := true; ; first = false {
		if p.screen {
			fmt.Fprint(p.stdout, clearScreen)
		}
		err := show()
		var away *opener.UnreachableError
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && (first || !waybill.IsUnavailable(err) && !errors.As(err, &away)):
			return err
		case err != nil:
			fmt.Fprintf(p.stderr, "waybill: %s\n", clean(err.Error()))
		}
		loop.Sleep(ctx, every)
	}
}
