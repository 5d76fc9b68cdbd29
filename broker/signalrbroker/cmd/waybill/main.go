// The command waybill is that of github.com/waybill-go/waybill/cmd/waybill, and also pushes to
// SignalR clients: waybill push --to signalr://host:port/path.
package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of schedules, for machines that have none

	"github.com/waybill-go/waybill/broker/signalrbroker"
	"github.com/waybill-go/waybill/internal/cli"
	"github.com/waybill-go/waybill/push"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Run(ctx, args, stdout, stderr, cli.PushProtocol{
		Scheme: "signalr",
		Handler: func(ctx context.Context, hub *push.Hub, path string, origins []string) (http.Handler, error) {
			return signalrbroker.New(ctx, hub, signalrbroker.Config{Path: path, AllowedOrigins: origins})
		},
	})
}
