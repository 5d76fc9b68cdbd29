// The command demo demonstrates Waybill, as "waybill demo" does, and links only what that
// needs: SQLite and an embedded NATS server.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/waybill-go/waybill/internal/cli/demo"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:]))
}

// run returns the exit code: 0 if the ledger balances, 2 for a usage error, else 1.
func run(ctx context.Context, args []string) int {
	if len(args) == 2 && args[0] == "demo" { // a child process, which the demo starts
		return report(demo.Child(ctx, args[1], os.Stdin, nil))
	}
	cfg := demo.Config{Output: os.Stdout, Live: demo.IsTerminal(os.Stdout)}
	flag.IntVar(&cfg.Orders, "orders", demo.DefaultOrders, "how many orders the shop commits")
	flag.StringVar(&cfg.Break, "break", "", "take the `inbox` or the outbox away, and see the ledger fail")
	flag.Parse()
	err := cfg.Check()
	if err == nil && flag.NArg() > 0 {
		err = fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if err != nil {
		report(err)
		return 2
	}
	ledger, err := demo.Run(ctx, cfg)
	if err == nil {
		err = ledger.Print(os.Stdout)
	}
	if code := report(err); code != 0 {
		return code
	}
	if !ledger.Balances {
		return 1
	}
	return 0
}

func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "demo: %v\n", err)
	return 1
}
