// The command waybill runs and operates an outbox: see waybill --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of schedules, for machines that have none

	"github.com/waybill-go/waybill/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
