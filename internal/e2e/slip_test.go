package e2e

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	brokers "github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/saga/slip"
)

// slipService is a service with a database of its own, which hosts one activity.
type slipService struct {
	activity string
	cfg      opener.StoreConfig
	table    string // of its own, where each call leaves a row
	broker   brokerSettings
	calls    *atomic.Int64 // of all services, in their order
	fails    bool
}

// slipDatabases are one of each kind.
func slipDatabases(t *testing.T) map[string]slipService {
	w := plainWorld(t)
	return map[string]slipService{
		"postgres": {cfg: opener.StoreConfig{URL: w.dsn, Schema: w.schema}, table: w.table("calls")},
		"mariadb":  {cfg: opener.StoreConfig{URL: newMariaDB(t)}, table: "calls"},
		"sqlite":   {cfg: opener.StoreConfig{URL: "sqlite:" + filepath.Join(t.TempDir(), "slip.db"), Create: true}, table: "calls"},
	}
}

// open opens the database of a service for the time of fn.
func (s *slipService) open(t *testing.T, fn func(db *sql.DB, store opener.SQLStore)) {
	t.Helper()
	db, store, err := opener.OpenSQL(t.Context(), s.cfg)
	if err != nil {
		t.Fatalf("%v; start the servers with: make services", err)
	}
	defer db.Close()
	fn(db, store)
}

func (s *slipService) migrate(t *testing.T) {
	t.Helper()
	s.open(t, func(db *sql.DB, store opener.SQLStore) {
		_, err := store.Migrate(t.Context(), "", 0)
		if err == nil {
			_, err = db.Exec("CREATE TABLE " + s.table + " (n bigint, verb varchar(20))")
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// note leaves a row in tx.
func (s *slipService) note(ctx context.Context, tx *sql.Tx, verb string) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (n, verb) VALUES (%d, '%s')", s.table, s.calls.Add(1), verb))
	return err
}

// slipCall is a row that an activity has left.
type slipCall struct {
	n    int64
	text string
}

func (s *slipService) committed(t *testing.T) []slipCall {
	t.Helper()
	var calls []slipCall
	s.open(t, func(db *sql.DB, _ opener.SQLStore) {
		rows, err := db.Query("SELECT n, verb FROM " + s.table)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			c := slipCall{}
			if err := rows.Scan(&c.n, &c.text); err != nil {
				t.Fatal(err)
			}
			c.text += " " + s.activity
			calls = append(calls, c)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	})
	return calls
}

// visit runs a service, with a connection to the broker and to its database of its own, from when
// begin has done its work until all messages of the given ids are published.
func (s *slipService) visit(t *testing.T, begin func(ctx context.Context, w *outbox.Writer[*sql.Tx], tx *sql.Tx) error, ids ...string) {
	t.Helper()
	s.open(t, func(_ *sql.DB, store opener.SQLStore) {
		conn, err := s.broker.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		w, err := outbox.NewWriter(store, outbox.Config{Source: s.activity, Observer: quiet})
		if err != nil {
			t.Fatal(err)
		}
		s.begin(t, w, begin)
		h, err := slip.NewHost(w, slip.Config[*sql.Tx]{Activities: []slip.Activity[*sql.Tx]{{
			Name: s.activity,
			Execute: func(ctx context.Context, tx *sql.Tx, _ *slip.Call) error {
				if err := s.note(ctx, tx, "execute"); err != nil || !s.fails {
					return err
				}
				return errNever
			},
			Compensate: func(ctx context.Context, tx *sql.Tx, _ *slip.Call) error { return s.note(ctx, tx, "compensate") },
		}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := consumer.New(conn, s.subscription(), store, h.Handle, quickConsumer(consumer.Config{GiveUp: slip.GivesUp}))
		if err != nil {
			t.Fatal(err)
		}
		r, err := relay.New(store, conn.Publisher(), quick(relay.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		defer run(t, t.Context(), c.Run)()
		defer run(t, t.Context(), r.Run)()
		for _, id := range ids {
			eventually(t, s.activity+" publishes "+id, func() bool {
				states, err := store.MessageStates(t.Context(), id)
				return err == nil && len(states) == 1 && states[0].Status == inspect.Published
			})
		}
	})
}

func (s *slipService) begin(t *testing.T, w *outbox.Writer[*sql.Tx], begin func(ctx context.Context, w *outbox.Writer[*sql.Tx], tx *sql.Tx) error) {
	t.Helper()
	if begin == nil {
		return
	}
	if _, err := w.InTx(t.Context(), func(ctx context.Context, tx *sql.Tx, _ *outbox.Recorder) error { return begin(ctx, w, tx) }); err != nil {
		t.Fatal(err)
	}
}

func (s *slipService) subscription() consumer.Subscription {
	return consumer.Subscription{Group: s.broker.group(s.activity), Topics: []string{"slip." + s.activity}}
}

// slipJourney is three services, of which one is up at a time.
func slipJourney(t *testing.T, b brokerSettings, kinds []string) []*slipService {
	t.Helper()
	conn, calls, databases := b.connect(t), new(atomic.Int64), slipDatabases(t)
	events := consumer.Subscription{Group: b.group("events"), Topics: []string{"slip.events"}}
	wanted := brokers.Wanted{Topics: events.Topics, Subscriptions: []consumer.Subscription{events}}
	var services []*slipService
	for i, activity := range []string{"reserve", "charge", "ship"} {
		s := databases[kinds[i]]
		s.activity, s.broker, s.calls = activity, b, calls
		s.migrate(t)
		services = append(services, &s)
		wanted.Topics = append(wanted.Topics, s.subscription().Topics...)
		wanted.Subscriptions = append(wanted.Subscriptions, s.subscription())
	}
	if b.Kind == "rabbit" {
		for _, s := range wanted.Subscriptions {
			t.Cleanup(func() { b.deleteNamedQueue(t, s.Group) })
		}
	}
	if _, err := conn.(brokers.Topology).Apply(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	return services
}

func wantCalls(t *testing.T, services []*slipService, want ...string) {
	t.Helper()
	var calls []slipCall
	for _, s := range services {
		calls = append(calls, s.committed(t)...)
	}
	slices.SortFunc(calls, func(a, b slipCall) int { return cmp.Compare(a.n, b.n) })
	var got []string
	for _, c := range calls {
		got = append(got, c.text)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("calls %q, want %q", got, want)
	}
}

// onSlipJourneys runs a story on each broker, with each service on each kind of store in one of
// them.
func onSlipJourneys(t *testing.T, story func(t *testing.T, services []*slipService, s *slip.Slip)) {
	t.Parallel()
	for name, kinds := range map[string][]string{
		"rabbit": {"postgres", "mariadb", "sqlite"},
		"nats":   {"mariadb", "sqlite", "postgres"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := slip.New().Events("slip.events").
				Add("reserve", "slip.reserve", nil).Add("charge", "slip.charge", nil).Add("ship", "slip.ship", nil)
			story(t, slipJourney(t, newBroker(t, name), kinds), s)
		})
	}
}

// starts begins a slip in a transaction.
func starts(s *slip.Slip) func(ctx context.Context, w *outbox.Writer[*sql.Tx], tx *sql.Tx) error {
	return func(ctx context.Context, w *outbox.Writer[*sql.Tx], tx *sql.Tx) error {
		return slip.Start(ctx, w, tx, s)
	}
}

// TestSlipCompletes takes a slip through three services, of which only one is up at a time.
func TestSlipCompletes(t *testing.T) {
	onSlipJourneys(t, func(t *testing.T, on []*slipService, s *slip.Slip) {
		on[0].visit(t, starts(s), s.ID()+"/waybill.slip.execute/0", s.ID()+"/waybill.slip.execute/1")
		on[1].visit(t, nil, s.ID()+"/waybill.slip.execute/2")
		on[2].visit(t, nil, s.ID()+"/waybill.slip.completed/2")
		wantCalls(t, on, "execute reserve", "execute charge", "execute ship")
	})
}

// TestSlipTurnsBack lets the third service fail: the second and the first, started again, undo what
// they have done, in this order and once.
func TestSlipTurnsBack(t *testing.T) {
	onSlipJourneys(t, func(t *testing.T, on []*slipService, s *slip.Slip) {
		on[2].fails = true
		on[0].visit(t, starts(s), s.ID()+"/waybill.slip.execute/0", s.ID()+"/waybill.slip.execute/1")
		on[1].visit(t, nil, s.ID()+"/waybill.slip.execute/2")
		on[2].visit(t, nil, s.ID()+"/waybill.slip.compensate/1", s.ID()+"/waybill.slip.activity_faulted/2")
		on[1].visit(t, nil, s.ID()+"/waybill.slip.compensate/0")
		on[0].visit(t, nil, s.ID()+"/waybill.slip.faulted/0")
		wantCalls(t, on, "execute reserve", "execute charge", "compensate charge", "compensate reserve")
	})
}
