// Package cli implements the program waybill: its commands, their flags, and their output.
//
// Results go to standard output, as tables for people or, with --json, as JSON for programs;
// everything else goes to standard error. The exit code is 0 only if the program did what it
// was asked, 2 for a usage error, and 1 if it failed.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/demo"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
)

const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// Run runs the program with its arguments and returns its exit code. It shuts down
// gracefully when ctx ends. "waybill push" speaks these protocols in addition to Server-Sent
// Events.
func Run(ctx context.Context, args []string, stdout, stderr io.Writer, protocols ...PushProtocol) int {
	return run(ctx, args, os.Environ(), stdout, stderr, protocols...)
}

// program is one run of the program.
type program struct {
	env            []string
	stdin          io.Reader
	stdout, stderr io.Writer
	open           func(context.Context, opener.StoreConfig) (opener.Store, error)
	now            func() time.Time
	asks           bool   // a person can answer on stdin what stderr asks
	progress       bool   // a person sees progress on stderr
	configFile     string // --config
	json           bool   // --json
	oneLine        bool   // JSON in one line each time, because it is printed again
	screen         bool   // a person sees stdout
	colours        bool   // and wants colours
	protocols      []PushProtocol
	warned         bool // of the configuration
}

func run(ctx context.Context, args, env []string, stdout, stderr io.Writer, protocols ...PushProtocol) int {
	p := &program{env: env, stdin: os.Stdin, stdout: stdout, stderr: stderr, open: opener.OpenStore, now: time.Now, protocols: protocols}
	p.progress, p.screen = demo.IsTerminal(stderr), demo.IsTerminal(stdout)
	p.colours = p.screen && wantsColours(env)
	p.asks = p.progress && demo.IsTerminal(os.Stdin)
	return p.run(ctx, args)
}

func (p *program) run(ctx context.Context, args []string) int {
	stdout, stderr := p.stdout, p.stderr
	root := p.root()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	var failed *failure
	isFailure := errors.As(err, &failed) && !errors.Is(err, errUsage)
	if text := err.Error(); text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			fmt.Fprintf(stderr, "waybill: %s\n", strings.TrimPrefix(line, "waybill: "))
		}
	}
	if isFailure {
		return exitFailed
	}
	fmt.Fprintf(stderr, "Run '%s --help' to see how it is used.\n", cmd.CommandPath())
	return exitUsage
}

// failure marks an error of a command that was used correctly. Errors of cobra before a
// command runs do not have it.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// errUsage marks a usage error that a command finds.
var errUsage = errors.New("usage")

// usageError is an error with that mark.
type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// silent is a failure that the output has reported already.
var silent = &failure{errors.New("")}

// does adapts fn to cobra.
func does(fn func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := fn(cmd, args)
		if err == nil {
			return nil
		}
		switch {
		case errors.Is(err, opener.ErrURL):
			err = usagef("%v", err)
		case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
			err = errors.New("interrupted")
		}
		return &failure{err}
	}
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "waybill",
		Short: "Messages that commit with your data",
		Long: `Waybill publishes messages that were committed with your data, and shows and repairs
what is pending, failed or scheduled.

Options are given as flags, as environment variables (WAYBILL_RELAY_BATCH_SIZE for
--relay-batch-size), or in a file, waybill.yaml unless another one is named (relay:
batch_size: 100). A flag takes precedence over the environment, the environment over
the file. "waybill config" shows every value and its origin, "waybill config --help"
every option.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.DisableSuggestions = true // "Did you mean" takes five lines
	flags := root.PersistentFlags()
	flags.SortFlags = false // in the order of the options
	flags.StringVar(&p.configFile, "config", "", "configuration `file`, "+config.DefaultFile+" in the working directory if there is one")
	flags.BoolVar(&p.json, "json", false, "print results as JSON, for programs")
	addOptions(flags)
	addHelp(root)
	root.AddCommand(p.demoCommand(), p.migrateCommand(), p.rolesCommand(), p.relayCommand(flags), p.outboxCommand(),
		p.inboxCommand(flags), p.pushCommand(flags), p.deadCommand(), p.scheduleCommand(), p.sagaCommand(), p.trafficCommand(), p.dashboardCommand(), p.janitorCommand(), p.doctorCommand(flags), p.watchCommand(flags), p.topologyCommand(), p.explainCommand(),
		p.configCommand(), p.versionCommand())
	return root
}

// takes returns the Args of a command that takes n arguments: those that its Use names.
func takes(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, named, _ := strings.Cut(cmd.Use, " ")
		switch {
		case len(args) < n:
			return usagef("%q requires argument %s", cmd.CommandPath(), named)
		case len(args) > n:
			return usagef("%q takes %s, and nothing more", cmd.CommandPath(), named)
		}
		return nil
	}
}

// needsSubcommand is the Args of a command that does nothing by itself.
func needsSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("unknown command %q for %q", args[0], cmd.CommandPath())
	}
	return usagef("%q requires a command", cmd.CommandPath())
}
