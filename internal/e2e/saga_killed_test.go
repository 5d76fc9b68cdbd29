package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
)

// render puts names of tables and the numbers of an order into a statement.
func (s shop) render(stmt string, p purchase) string {
	pairs := []string{"{id}", p.id(), "{pieces}", strconv.Itoa(p.Pieces), "{cents}", strconv.Itoa(p.Cents), "{inbox}", s.Prefix + "inbox", "{messages}", s.Prefix + "messages"}
	for name := range shopTables {
		pairs = append(pairs, "{"+name+"}", s.Prefix+name)
	}
	return strings.NewReplacer(pairs...).Replace(stmt)
}

// openShop makes the tables of a shop.
func (a *agenda) openShop(t *testing.T) shop {
	t.Helper()
	s := shop{Store: a.cfg, Prefix: "waybill_"}
	if a.cfg.Schema != "" {
		s.Prefix = pgx.Identifier{a.cfg.Schema}.Sanitize() + "."
	}
	statements := []string{
		fmt.Sprintf("INSERT INTO {stock} VALUES (%d)", firstPieces),
		fmt.Sprintf("INSERT INTO {accounts} VALUES ('customers', %d), ('shop', 0)", firstCents),
	}
	for name, columns := range shopTables {
		statements = append([]string{"CREATE TABLE {" + name + "} (" + columns + ")"}, statements...)
	}
	for _, stmt := range statements {
		if _, err := a.db.ExecContext(t.Context(), s.render(stmt, purchase{})); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// shopProcesses are the processes of a shop, each of which may be killed.
type shopProcesses struct {
	*office
	shop      shop
	writer    *outbox.Writer[*sql.Tx]
	rng       *rand.Rand
	settings  []child
	processes []*process
	placed    int
}

// crowdLease lets the lanes of a killed process go before the timeout of the saga, most of the time.
var crowdLease = leaseTimes{LeaseTTL: 1500 * time.Millisecond, RenewInterval: 300 * time.Millisecond, PublishTimeout: time.Second}

func newShopProcesses(t *testing.T, o *office, b brokerSettings) *shopProcesses {
	t.Helper()
	c := &shopProcesses{office: o, shop: o.openShop(t), rng: rand.New(rand.NewPCG(chosenSeed(t), 60))}
	var err error
	if c.writer, err = outbox.NewWriter(o.store, outbox.Config{Source: "web", Observer: quiet}); err != nil {
		t.Fatal(err)
	}
	for role, topics := range shopTopics {
		b.declareQueue(t, role, topics...)
		s := child{Role: role, Broker: b, Shop: c.shop, Lease: crowdLease}
		c.settings = append(c.settings, s)
		c.processes = append(c.processes, startChild(t, s))
	}
	t.Cleanup(func() {
		for i, p := range c.processes {
			if t.Failed() {
				t.Logf("%s said: %s", c.settings[i].Role, strings.Join(p.said(), " | "))
			}
		}
	})
	return c
}

// place places the next orders, in one transaction.
func (c *shopProcesses) place(t *testing.T, n int) {
	t.Helper()
	c.tx(t, func(ctx context.Context, tx *sql.Tx) error {
		for i := range n {
			m := newPurchase(c.placed + i).message("placed")
			m.Topic = "placed"
			if _, err := c.writer.Enqueue(ctx, tx, m); err != nil {
				return err
			}
		}
		return nil
	})
	c.placed += n
}

// killOne kills a process with SIGKILL, at any moment, and starts it again.
func (c *shopProcesses) killOne(t *testing.T) {
	t.Helper()
	<-time.After(time.Duration(c.rng.IntN(100)) * time.Millisecond)
	i := c.rng.IntN(len(c.processes))
	c.processes[i].kill()
	c.processes[i] = startChild(t, c.settings[i])
}

// ended returns how many orders have ended, by status.
func (c *shopProcesses) ended(t *testing.T) (completed, compensated int) {
	t.Helper()
	counts, err := c.store.SagaCounts(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range counts {
		switch n.Status {
		case saga.Completed:
			completed = int(n.Count)
		case saga.Compensated:
			compensated = int(n.Count)
		}
	}
	return completed, compensated
}

func (c *shopProcesses) number(t *testing.T, query string) int {
	t.Helper()
	var n sql.NullInt64
	query = c.shop.render(query, purchase{})
	if err := c.db.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return int(n.Int64)
}

// TestSagaKilled (AS-60) lets orders be reserved, charged and shipped by three processes, which are killed
// at random. The bank refuses some and answers others too late, and some can't be delivered. Every
// order completes or is compensated in the end; stock and money are what the completed ones leave,
// to the cent; nothing was done twice; and every message was handled once.
//
//test:soak
func TestSagaKilled(t *testing.T) {
	orders, kills, limit := 40, 6, 6*patience
	if soaking() {
		orders, kills, limit = 2_000, 150, 30*patience
	}
	inOffices(t, func(t *testing.T, o *office) {
		c := newShopProcesses(t, o, newBroker(t, "rabbit"))
		for n := range kills {
			c.place(t, orders*(n+1)/kills-c.placed)
			within(t, limit, "half of what was placed has ended", func() bool {
				completed, compensated := c.ended(t)
				return 2*(completed+compensated) >= c.placed
			})
			c.killOne(t)
		}
		within(t, limit, "every order has ended", func() bool {
			completed, compensated := c.ended(t)
			return completed+compensated == orders
		})
		within(t, limit, "every message is handled", func() bool {
			return c.number(t, "SELECT count(*) FROM {messages} WHERE status <> 'Published'") == 0 &&
				c.number(t, "SELECT count(*) FROM {inbox}") == c.number(t, "SELECT count(*) FROM {messages}")
		})
		c.check(t)
	})
}

func (c *shopProcesses) check(t *testing.T) {
	t.Helper()
	completed, compensated := c.ended(t)
	pieces, cents, refused := 0, 0, 0
	for n := range c.placed {
		p := newPurchase(n)
		if p.refused() || p.undeliverable() {
			refused++
		}
		in, err := c.store.Saga(t.Context(), saga.ID{Tenant: "default", Saga: "purchases", Key: p.id()})
		if err != nil {
			t.Fatal(err)
		}
		if in.Status == saga.Completed {
			pieces, cents = pieces+p.Pieces, cents+p.Cents
		}
	}
	t.Logf("%d orders completed, %d were compensated", completed, compensated)
	if compensated < refused {
		t.Errorf("%d orders were compensated, want the %d that were refused at least", compensated, refused)
	}
	for query, want := range map[string]int{
		"SELECT pieces FROM {stock}":                                                 firstPieces - pieces,
		"SELECT sum(pieces) FROM {parcels}":                                          pieces,
		"SELECT count(*) FROM {parcels}":                                             completed,
		"SELECT cents FROM {accounts} WHERE name = 'customers'":                      firstCents - cents,
		"SELECT cents FROM {accounts} WHERE name = 'shop'":                           cents,
		"SELECT sum(cents) FROM {payments} WHERE state = 'charged'":                  cents,
		"SELECT count(*) FROM {reservations} WHERE state = 'reserved'":               completed,
		"SELECT count(*) - count(DISTINCT id) FROM {messages}":                       0,
		"SELECT count(*) - count(DISTINCT message_id) FROM {inbox}":                  0,
		"SELECT count(*) FROM {messages} WHERE type = 'placed' AND topic = 'placed'": c.placed,
	} {
		if n := c.number(t, query); n != want {
			t.Errorf("%s: %d, want %d", query, n, want)
		}
	}
	c.noLetters(t)
}
