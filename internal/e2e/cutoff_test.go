package e2e

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestUnansweredCallsLeaveNothing: a call whose context ends while the server is silent leaves neither a goroutine nor a
// connection behind. With pgx before 5.9 each one with several statements in a round trip left a goroutine.
func TestUnansweredCallsLeaveNothing(t *testing.T) {
	// Not parallel: it counts goroutines.
	w := plainWorld(t)
	cfg, err := pgxpool.ParseConfig(postgresURL())
	if err != nil {
		t.Fatal(err)
	}
	proxy := newProxy(t, net.JoinHostPort(cfg.ConnConfig.Host, strconv.Itoa(int(cfg.ConnConfig.Port))))
	host, port, err := net.SplitHostPort(proxy.Addr())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	cfg.ConnConfig.Host, cfg.ConnConfig.Port, cfg.MaxConns = host, uint16(number), 1
	before := runtime.NumGoroutine()
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.New(pool, pgstore.Config{Schema: w.schema})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := store.RenewLanes(t.Context(), contract.LeaseRequest{Node: "r", Join: true, TTL: patience})
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]func(ctx context.Context) error{
		"claim": func(ctx context.Context) error {
			_, err := store.ClaimMessages(ctx, contract.ClaimRequest{Lanes: lease.Lanes, Limit: 10})
			return err
		},
		"inbox": func(ctx context.Context) error {
			m := waybill.Message{ID: waybill.NewID(), Type: "t", Topic: "t", Source: "s"}
			_, err := inbox.Process(ctx, store, "c", &m, func(context.Context, pgx.Tx) error { return nil })
			return err
		},
	}
	for name, call := range calls {
		for range 5 {
			if err := call(t.Context()); err != nil { // connects, and prepares its statements
				t.Fatalf("%s: %v", name, err)
			}
			proxy.Stall(true)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			if err := call(ctx); err == nil {
				t.Errorf("%s: no error from a server that is silent", name)
			}
			cancel()
			proxy.Stall(false)
		}
	}
	pool.Close()
	proxy.Close()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}
