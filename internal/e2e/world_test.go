package e2e

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

func TestMain(m *testing.M) {
	if cfg := os.Getenv(childEnv); cfg != "" {
		os.Exit(runChild(cfg))
	}
	if args := os.Getenv(programEnv); args != "" {
		os.Exit(runProgram(args))
	}
	slog.SetLogLoggerLevel(slog.LevelError + 1) // stories provoke errors all the time
	code := m.Run()
	if err := dropFreeSchemas(); err != nil {
		fmt.Fprintln(os.Stderr, "drop schemas:", err)
		code = 1
	}
	os.Exit(code)
}

func postgresURL() string {
	if u := os.Getenv("POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://postgres@127.0.0.1:5432/test?sslmode=disable"
}

// session is a way in which applications set up their connections.
type session struct {
	name    string
	params  map[string]string // run-time parameters of each connection
	schema  string            // schema name; a random part is added
	holdsTx bool              // a business transaction that has enqueued stays open meanwhile
	pooled  bool              // through PgBouncer, which hands out sessions per transaction
}

var sessions = []session{
	{name: "plain"},
	{name: "serializable, time zone, hostile schema name", schema: `way-bill"x`,
		params: map[string]string{"timezone": "Asia/Tokyo", "default_transaction_isolation": "serializable"}},
	{name: "repeatable read, a transaction stays open", holdsTx: true, params: map[string]string{"default_transaction_isolation": "repeatable read"}},
}

// pooledSession is chosen by its name only: its limits are those of one pooler for all.
var pooledSession = session{name: "through PgBouncer", pooled: true}

// sessionEnv names the kind of session for every story of a run: make test runs all stories
// in each kind. Without it, stories about the database run in every kind, others in the
// first.
const sessionEnv = "E2E_SESSION"

func chosenSessions(t *testing.T) []session {
	name := os.Getenv(sessionEnv)
	if name == "" {
		return sessions
	}
	for _, s := range append([]session{pooledSession}, sessions...) {
		if s.name == name {
			return []session{s}
		}
	}
	t.Fatalf("%s is %q, which is no kind of session", sessionEnv, name)
	return nil
}

// inKindOfSession reports whether the run is about one kind of session that is not the plain one.
func inKindOfSession() bool {
	name := os.Getenv(sessionEnv)
	return name != "" && name != sessions[0].name
}

// inSessions runs a story once in each kind of session.
func inSessions(t *testing.T, story func(t *testing.T, w *world)) {
	t.Parallel()
	for _, s := range chosenSessions(t) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			story(t, newWorld(t, s))
		})
	}
}

// world is one service's database: our tables and two of its own.
type world struct {
	dsn       string
	listenURL string // where relays listen, if not where dsn leads
	schema    string
	pool      *pgxpool.Pool
	store     *pgstore.Store[pgx.Tx]
	writer    *outbox.Writer[pgx.Tx]
}

// plainWorld is the world of a story that runs in one kind of session at a time.
func plainWorld(t *testing.T) *world {
	t.Helper()
	return newWorld(t, chosenSessions(t)[0])
}

func newWorld(t *testing.T, s session) *world {
	t.Helper()
	return newWorldAt(t, postgresURL(), s)
}

// newWorldAt makes the world in the database of a URL.
func newWorldAt(t *testing.T, url string, s session) *world {
	t.Helper()
	shared := url == postgresURL() && !s.pooled // the pooler's sessions are nobody's
	var own schema
	var found bool
	if shared {
		own, found = takeSchema(s.name)
	}
	if !found {
		own.name = fmt.Sprintf("%s_%08x", cmp.Or(s.schema, "e2e"), rand.Uint32())
	}
	params := map[string]string{"application_name": own.name}
	maps.Copy(params, s.params)
	w := &world{dsn: withParams(t, url, params), schema: own.name}
	if s.pooled {
		through, err := faultproxy.PgBouncerURL()
		if err != nil {
			t.Fatal(err)
		}
		w.dsn, w.listenURL = through, postgresURL()
	}
	w.open(t)
	t.Cleanup(func() { w.leave(t, own, s.name, shared) })
	if !found {
		w.fill(t)
	}
	if shared && !found {
		var err error
		if own.definition, err = own.define(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if s.holdsTx {
		w.holdTransaction(t)
	}
	return w
}

// leave closes the world. The schema of a server that is not the tests' own, or that is reached through a pooler, is dropped.
func (w *world) leave(t *testing.T, own schema, kind string, shared bool) {
	var err error
	if !shared {
		err = dropSchema(context.Background(), w.pool, own.name)
	}
	w.pool.Close()
	if shared {
		err = own.leave(kind, t.Failed())
	}
	if err != nil {
		t.Errorf("leave schema %s: %v", own.name, err)
	}
}

// open connects to the world's schema.
func (w *world) open(t *testing.T) {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.MaxConns = 12
	if w.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	if w.store, err = pgstore.New(w.pool, pgstore.Config{Schema: w.schema, ListenURL: w.listenURL}); err != nil {
		t.Fatal(err)
	}
	w.writer, err = outbox.NewWriter(w.store, outbox.Config{Source: "shop", Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
}

func withParams(t *testing.T, dsn string, params map[string]string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for k, v := range params {
		q.Set(k, v)
	}
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // newer releases of pgx take a plus for one
	return u.String()
}

func (w *world) ident() string { return pgx.Identifier{w.schema}.Sanitize() }

func (w *world) table(name string) string { return w.ident() + "." + name }

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// number runs a query for one number, again if it clashes with another transaction.
func (w *world) number(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := w.pool.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// holdTransaction keeps a transaction open that has enqueued, until the story has ended; what
// it enqueued must then not be lost.
func (w *world) holdTransaction(t *testing.T) {
	t.Helper()
	tx, err := w.pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.writer.Enqueue(context.Background(), tx, waybill.Message{ID: "held", Topic: "held", Key: "held"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tx.Commit(context.Background()); err != nil {
			t.Errorf("commit the transaction that stayed open: %v", err)
		}
		pub := &recorder{}
		w.startRelayIn(t, context.Background(), pub, relay.Config{})
		eventually(t, "the held message is published", func() bool { return pub.count("held") == 1 })
	})
}

// inTx runs fn in a transaction of the application's own making and commits it; it is
// repeated if it clashes with another one, as applications do.
func (w *world) inTx(t *testing.T, fn func(tx pgx.Tx) error) {
	t.Helper()
	for try := 0; ; try++ {
		err := pgx.BeginFunc(t.Context(), w.pool, fn)
		if err == nil {
			return
		}
		if try == 50 || !isSerialization(err) {
			t.Fatalf("business transaction: %v", err)
		}
	}
}

func isSerialization(err error) bool {
	return waybill.IsConflict(err) || strings.Contains(err.Error(), "SQLSTATE 40001")
}

// enqueue commits msgs in one transaction.
func (w *world) enqueue(t *testing.T, msgs ...waybill.Message) outbox.Result {
	t.Helper()
	res, err := w.writer.InTx(t.Context(), func(_ context.Context, _ pgx.Tx, rec *outbox.Recorder) error {
		rec.Record(msgs...)
		return nil
	})
	if err != nil {
		t.Fatalf("enqueue: %v", err)
	}
	return res
}

// numbered returns n messages of a topic with ids prefix0, prefix1 and so on.
func numbered(prefix, topic string, n int) []waybill.Message {
	msgs := make([]waybill.Message, n)
	for i := range msgs {
		msgs[i] = waybill.Message{ID: fmt.Sprintf("%s%d", prefix, i), Topic: topic, Payload: []byte(`{}`)}
	}
	return msgs
}

func (w *world) statuses(t *testing.T, id string) []inspect.Status {
	t.Helper()
	states, err := w.store.MessageStates(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	list := []inspect.Status{}
	for _, s := range states {
		list = append(list, s.Status)
	}
	return list
}

func (w *world) state(t *testing.T, id string) inspect.MessageState {
	t.Helper()
	states, err := w.store.MessageStates(context.Background(), id)
	if err != nil || len(states) != 1 {
		t.Fatalf("MessageStates(%s) = %v, %v; want one", id, states, err)
	}
	return states[0]
}

// waitStatus waits until a message is in exactly one place, the given one.
func (w *world) waitStatus(t *testing.T, id string, want inspect.Status) {
	t.Helper()
	eventually(t, fmt.Sprintf("message %s is %s", id, want), func() bool {
		s := w.statuses(t, id)
		return len(s) == 1 && s[0] == want
	})
}

// everyIDOnce fails if a message is not in exactly one place.
func (w *world) everyIDOnce(t *testing.T, want int) {
	t.Helper()
	rows, places := w.number(t, "SELECT count(DISTINCT id) FROM "+w.table("messages")+" WHERE id <> 'held'"),
		w.number(t, "SELECT count(*) FROM "+w.table("messages")+" WHERE id <> 'held'")
	if rows != want || places != want {
		t.Errorf("%d messages in %d places, want %d in %d", rows, places, want, want)
	}
}

func (w *world) effects(t *testing.T, consumer, id string) int {
	t.Helper()
	return w.number(t, "SELECT count(*) FROM "+w.table("effects")+" WHERE consumer = $1 AND message_id = $2", consumer, id)
}

// addEffect is what a handler does: a row of its own in the transaction.
func (w *world) addEffect(ctx context.Context, tx pgx.Tx, consumer, id string) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+w.table("effects")+" (consumer, message_id) VALUES ($1, $2)", consumer, id)
	return err
}

// quick are relay settings for stories: everything happens sooner, nothing differently.
func quick(cfg relay.Config) relay.Config {
	if cfg.PollInterval == 0 {
		cfg.PollInterval = 50 * time.Millisecond
	}
	if cfg.LeaseTTL == 0 {
		cfg.LeaseTTL, cfg.RenewInterval, cfg.PublishTimeout = 3*time.Second, 500*time.Millisecond, 2*time.Second
	}
	if cfg.Retry == (waybill.RetryPolicy{}) {
		cfg.Retry.BaseDelay = 100 * time.Millisecond
	}
	if cfg.Observer == nil {
		cfg.Observer = quiet
	}
	return cfg
}

// startRelay runs a relay until the story ends or the returned function is called.
func (w *world) startRelay(t *testing.T, pub contract.Publisher, cfg relay.Config) (r *relay.Relay, stop func()) {
	t.Helper()
	return w.startRelayIn(t, t.Context(), pub, cfg)
}

func (w *world) startRelayIn(t *testing.T, ctx context.Context, pub contract.Publisher, cfg relay.Config) (*relay.Relay, func()) {
	t.Helper()
	r, err := relay.New(w.store, pub, quick(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return r, run(t, ctx, r.Run)
}

// startConsumer runs a consumer until the story ends or the returned function is called.
func (w *world) startConsumer(t *testing.T, s source, h consumer.Handler[pgx.Tx], cfg consumer.Config) (*consumer.Consumer[pgx.Tx], func()) {
	t.Helper()
	c, err := consumer.New(s, s.of, w.store, h, quickConsumer(cfg))
	if err != nil {
		t.Fatal(err)
	}
	return c, run(t, t.Context(), c.Run)
}

func quickConsumer(cfg consumer.Config) consumer.Config {
	if cfg.Retry == (waybill.RetryPolicy{}) {
		cfg.Retry.BaseDelay = 100 * time.Millisecond
	}
	if cfg.RequeueInterval == 0 {
		cfg.RequeueInterval = 50 * time.Millisecond
	}
	if cfg.Observer == nil {
		cfg.Observer = quiet
	}
	return cfg
}

// run runs a part and returns a function that stops it and waits for its end.
func run(t *testing.T, ctx context.Context, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run() = %v, want nil", err)
			}
		case <-time.After(patience):
			t.Errorf("Run() did not end within %v", patience)
		}
	})
	t.Cleanup(stop)
	return stop
}

// patience ends a story that hangs: no wait is longer, and each ends as soon as its condition holds.
// How fast something is, bench measures; a story says what happens before what, or how often.
const patience = 5 * time.Minute

// unreached is a limit in a setting that nothing but a hang reaches.
const unreached = time.Minute

// eventually waits until condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	within(t, patience, what, condition)
}

// within is eventually for a story that is long: limit is a multiple of patience.
func within(t *testing.T, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		<-tick.C
	}
}

// quiet is an observer that says nothing.
var quiet observe.Observer = observe.LogTo(slog.New(slog.DiscardHandler))

// recorder is a publisher that records what it accepts and fails as it is configured to.
type recorder struct {
	mu   sync.Mutex
	sent []contract.Outgoing
	// fail, if set, decides the result of each message.
	fail func(m contract.Outgoing) error
	// before, if set, is called at the begin of each Send.
	before func(ctx context.Context, msgs []contract.Outgoing)
}

func (p *recorder) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	if p.before != nil {
		p.before(ctx, msgs)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	errs := make([]error, len(msgs))
	for i, m := range msgs {
		if p.fail != nil {
			errs[i] = p.fail(m)
		}
		if errs[i] == nil {
			clone := m.Clone()
			p.sent = append(p.sent, contract.Outgoing{Message: &clone, DedupID: m.DedupID, Resent: m.Resent})
		}
	}
	return func() []error { return errs }
}

// ids returns the ids of the accepted messages, in order, without those held open.
func (p *recorder) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := []string{}
	for _, m := range p.sent {
		if m.ID != "held" {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (p *recorder) count(id string) int {
	n := 0
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.sent {
		if m.ID == id {
			n++
		}
	}
	return n
}
