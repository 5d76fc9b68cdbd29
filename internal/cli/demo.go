package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/demo"
	"github.com/waybill-go/waybill/internal/cli/demo/servers"
)

func (p *program) demoCommand() *cobra.Command {
	cfg := demo.Config{Servers: servers.All{}}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See it at work, with no server to install",
		Long: `See it at work: a shop commits orders with their messages, a relay publishes them, two
consumers act on them. Meanwhile processes are killed, messages are published twice and
handlers fail. In the end a ledger is drawn up from the tables and the broker; the exit code
is 0 if it balances.

Without --store and --broker it brings its own, which are gone afterwards. With them it uses
a schema, stream, exchange and queues of its own, and removes them. For the demo only the
flags count, not the environment and the configuration file.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.demo(cmd, cfg) }),
	}
	flags := cmd.Flags()
	flags.IntVar(&cfg.Orders, "orders", demo.DefaultOrders, "how many orders the shop commits")
	flags.StringVar(&cfg.Break, "break", "", "take the `inbox` or the outbox away, and see the ledger fail")
	for _, role := range []string{"shop", "relay"} {
		cmd.AddCommand(&cobra.Command{
			Use:    role,
			Short:  "Play one part of the demo, which starts this itself",
			Hidden: true,
			Args:   cobra.NoArgs,
			RunE: does(func(cmd *cobra.Command, _ []string) error {
				return demo.Child(cmd.Context(), role, os.Stdin, servers.All{})
			}),
		})
	}
	return cmd
}

func (p *program) demo(cmd *cobra.Command, cfg demo.Config) error {
	if err := cfg.Check(); err != nil {
		return usagef("%v", err)
	}
	cfg.Store, cfg.Broker = p.given(cmd, "store"), p.given(cmd, "broker")
	cfg.Output = p.stdout
	if p.json {
		cfg.Output = p.stderr
	}
	cfg.Live = demo.IsTerminal(cfg.Output)
	ledger, err := demo.Run(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	return p.printLedger(ledger)
}

// given returns the value of an option's flag if it was given.
func (p *program) given(cmd *cobra.Command, name string) string {
	if flag := cmd.Flag(name); flag.Changed {
		return flag.Value.String()
	}
	return ""
}

func (p *program) printLedger(l *demo.Ledger) error {
	if p.json {
		if err := p.printJSON(l); err != nil {
			return err
		}
	} else if err := l.Print(p.stdout); err != nil {
		return err
	}
	if !l.Balances {
		return silent
	}
	return nil
}
