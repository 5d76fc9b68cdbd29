// Command incident stages an incident and resolves it with the commands of docs/runbooks.md. A
// shop sells continuously; then the broker is down, one order is poison for billing, and
// shipping is too slow. An operator looks with the program waybill, fixes the problem, and looks
// again. Finally a ledger shows that each order was invoiced and shipped once.
//
//	go run ./examples/incident
//
// It needs PostgreSQL and NATS ("make services") and uses its own schema and stream. With
// -outage 2m the broker is down for two minutes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	store, broker, program string
	outage                 time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.store, "store", "postgres://postgres@127.0.0.1:5432/test?sslmode=disable", "URL of PostgreSQL")
	flag.StringVar(&s.broker, "broker", "nats://127.0.0.1:4222", "URL of NATS")
	flag.StringVar(&s.program, "waybill", "", "the program waybill; built from ./cmd/waybill if empty")
	flag.DurationVar(&s.outage, "outage", 10*time.Second, "how long the broker is away")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := stage(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "incident:", err)
		os.Exit(1)
	}
}

// stage shows the incident from its beginning to its end.
func stage(ctx context.Context, s settings) (err error) {
	sh, err := openShop(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, sh.close(clean))
	}()
	op, err := newOperator(ctx, s, sh)
	if err != nil {
		return err
	}
	defer op.close()
	for _, act := range []func(context.Context, settings, *shop, *operator) error{
		allIsWell, brokerIsAway, brokerIsBack, poison, slowConsumer, ledger,
	} {
		if err := act(ctx, s, sh, op); err != nil {
			return err
		}
	}
	return nil
}

// say prints what happens out of the operator's sight.
func say(format string, args ...any) { fmt.Printf("\n── "+format+"\n", args...) }

const ordersBefore = 50

func allIsWell(ctx context.Context, _ settings, sh *shop, op *operator) error {
	say("The shop sells, all is well.")
	if err := sh.start(ctx); err != nil {
		return err
	}
	err := sh.until(ctx, "the first orders are shipped", func(c counts) bool { return c.parcels >= ordersBefore })
	return errors.Join(err, op.run(ctx, "doctor"))
}

func brokerIsAway(ctx context.Context, s settings, sh *shop, op *operator) error {
	say("03:00: the network to the broker is cut for %v. The shop sells on.", s.outage)
	sh.wire.cut()
	before, err := sh.count(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := sh.until(ctx, "a backlog grows", func(c counts) bool { return c.pending > 0 && c.orders >= before.orders+ordersBefore }); err != nil {
		return err
	}
	if err := op.runFailing(ctx, "doctor"); err != nil {
		return err
	}
	if err := op.run(ctx, "outbox", "stats"); err != nil {
		return err
	}
	return sleep(ctx, s.outage-time.Since(began))
}

func brokerIsBack(ctx context.Context, _ settings, sh *shop, op *operator) error {
	say("The broker is back. Nobody does anything: the relay has waited.")
	sh.wire.mend()
	err := sh.until(ctx, "the backlog is published", func(c counts) bool { return c.pending < ordersBefore })
	return errors.Join(err, op.run(ctx, "outbox", "stats"))
}

func poison(ctx context.Context, _ settings, sh *shop, op *operator) error {
	say("Billing can't handle one order: it fails again and again and becomes a dead letter.")
	if err := sh.sellPoison(ctx); err != nil {
		return err
	}
	if err := sh.until(ctx, "billing gives up", func(c counts) bool { return c.letters == 1 }); err != nil {
		return err
	}
	if err := op.run(ctx, "dead", "list"); err != nil {
		return err
	}
	say("The error says it: a currency is missing. Billing is fixed, and the dead letter requeued.")
	sh.fixed.Store(true)
	if err := op.requeueAll(ctx); err != nil {
		return err
	}
	err := sh.until(ctx, "billing handles it", func(c counts) bool { return c.letters == 0 && c.poisonInvoices == 1 })
	return errors.Join(err, op.run(ctx, "dead", "list"))
}

func slowConsumer(ctx context.Context, _ settings, sh *shop, op *operator) error {
	c, err := sh.count(ctx)
	if err != nil {
		return err
	}
	say("Shipping lags: %d orders, %d parcels. doctor finds nothing wrong up to the broker:", c.orders, c.parcels)
	if err := op.run(ctx, "doctor"); err != nil {
		return err
	}
	say("So it is shipping itself. It is started again with more handlers.")
	if err := sh.hurryShipping(ctx); err != nil {
		return err
	}
	sh.stopSelling()
	return sh.until(ctx, "shipping catches up", func(c counts) bool { return c.parcels >= c.orders && c.invoices >= c.orders })
}

func ledger(ctx context.Context, _ settings, sh *shop, op *operator) error {
	say("The ledger:")
	c, err := sh.count(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("orders committed       %6d\nmessages published     %6d\ninvoices, of orders    %6d, %d\nparcels, of orders     %6d, %d\nnot yet published      %6d\ndead letters           %6d\n",
		c.orders, c.published, c.invoices, c.invoicedOrders, c.parcels, c.shippedOrders, c.pending, c.letters)
	want := counts{orders: c.orders, published: c.orders, invoices: c.orders, invoicedOrders: c.orders, parcels: c.orders, shippedOrders: c.orders, poisonInvoices: 1}
	if c != want {
		return fmt.Errorf("the ledger does not balance: %+v, want %+v", c, want)
	}
	fmt.Println("\nThe ledger balances: each order has one invoice and one parcel.")
	return op.run(ctx, "doctor")
}

// sleep waits, unless ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
