package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/promobserve"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/request"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/memstore"
)

// documentedMetric is a row of the table in docs/metrics.md.
type documentedMetric struct {
	name, kind string
	labels     []string
}

func documentedMetrics(t *testing.T) (list []documentedMetric) {
	t.Helper()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if name := strings.Trim(cells[0], "`"); len(cells) == 4 && strings.HasPrefix(name, "waybill_") {
			labels := strings.FieldsFunc(cells[2], func(r rune) bool { return strings.ContainsRune("`, –", r) })
			list = append(list, documentedMetric{name, cells[1], labels})
		}
	}
	if len(list) < 40 {
		t.Fatalf("only %d metrics are documented", len(list))
	}
	return list
}

// secrets are what must be in no log record and no metric.
var secrets = []string{"s3cr3t-payload", "s3cr3t-header", "s3cr3t-password"}

func secretive(m waybill.Message) waybill.Message {
	m.Payload = []byte(`{"card":"s3cr3t-payload"}`)
	m.Headers = map[string]string{"x-card": "s3cr3t-header"}
	return m
}

// trial is the stage of the story that provokes every metric: a store that fails when told
// to, a broker with a publisher that does, and everything that is reported.
type trial struct {
	*testing.T
	ctx      context.Context
	store    *moodyStore
	broker   *membroker.Broker
	observer *promobserve.Observer
	registry *prometheus.Registry
	log      *lockedBuffer
	all      observe.Observer
	writer   *outbox.Writer[*memstore.Tx]
}

// moodyStore fails once where it is configured to, and has a clock that can be moved.
type moodyStore struct {
	*memstore.Store
	ahead                atomic.Int64
	failClaim, failClean atomic.Bool
	failClock, failBegin atomic.Bool
}

func newMoodyStore() *moodyStore {
	s := &moodyStore{}
	s.Store = memstore.New(memstore.WithClock(func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }))
	return s
}

var errDatabase = errors.New("connect postgres://app:s3cr3t-password@db/shop: refused")

func (s *moodyStore) ClaimMessages(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	if s.failClaim.CompareAndSwap(true, false) {
		return nil, waybill.UnavailableError(errDatabase)
	}
	return s.Store.ClaimMessages(ctx, req)
}

func (s *moodyStore) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	if s.failBegin.Load() {
		return lease.Answer{}, waybill.UnavailableError(errDatabase)
	}
	return s.Store.TryBegin(ctx, req)
}

// MaintainArchive reports days as a store with partitions would.
func (s *moodyStore) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	if s.failClean.CompareAndSwap(true, false) {
		return contract.Maintained{}, waybill.ConflictError(errDatabase)
	}
	done, err := s.Store.MaintainArchive(ctx, req)
	done.Added, done.Dropped = 1, 1
	return done, err
}

func (s *moodyStore) clock(context.Context) (time.Time, error) {
	if s.failClock.CompareAndSwap(true, false) {
		return time.Time{}, errDatabase
	}
	return time.Now().Add(time.Second), nil
}

// moodyPublisher lets some messages fail at their first attempt.
type moodyPublisher struct {
	contract.Publisher
	mu    sync.Mutex
	fails map[string]error
}

// DedupWindow implements [contract.Deduplicator]: any repetition is too late.
func (p *moodyPublisher) DedupWindow() time.Duration { return time.Nanosecond }

func (p *moodyPublisher) Send(ctx context.Context, msgs []contract.Outgoing) (wait func() []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	results := make([]error, len(msgs))
	for i, m := range msgs {
		if err := p.fails[m.ID]; err != nil {
			results[i] = err
			delete(p.fails, m.ID)
			continue
		}
		results[i] = p.Publisher.Send(ctx, msgs[i:i+1])()[0]
	}
	return func() []error { return results }
}

// moodySubscriber says of every delivery that it was here before, and fails to acknowledge the
// first one.
type moodySubscriber struct {
	contract.Subscriber
	failed *atomic.Bool
}

type moodyDelivery struct {
	contract.Delivery
	failed *atomic.Bool
}

func (s moodySubscriber) Subscribe(ctx context.Context, prefetch int, deliver func(contract.Delivery)) error {
	return s.Subscriber.Subscribe(ctx, prefetch, func(d contract.Delivery) { deliver(moodyDelivery{d, s.failed}) })
}

func (moodyDelivery) Redelivered() bool { return true }

func (d moodyDelivery) Ack(ctx context.Context) error {
	return errors.Join(d.Delivery.Ack(ctx), func() error {
		if d.failed.CompareAndSwap(false, true) {
			return errDatabase
		}
		return nil
	}())
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func newTrial(t *testing.T, observers ...observe.Observer) *trial {
	tr := &trial{T: t, ctx: t.Context(), store: newMoodyStore(), broker: membroker.New(), registry: prometheus.NewPedanticRegistry(), log: &lockedBuffer{}}
	tr.observer = promobserve.New(promobserve.Config{})
	logger := slog.New(slog.NewTextHandler(tr.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tr.all = observe.Observers(append(observers, observe.LogTo(logger), tr.observer)...)
	writer, err := outbox.NewWriter(tr.store, outbox.Config{Source: "shop", Observer: tr.all})
	if err != nil {
		t.Fatal(err)
	}
	tr.writer = writer
	return tr
}

func (tr *trial) enqueue(msgs ...waybill.Message) {
	tr.Helper()
	for i := range msgs {
		msgs[i] = secretive(msgs[i])
	}
	_, err := tr.writer.InTx(tr.ctx, func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
		pass(time.Millisecond) // as any database needs
		rec.Record(msgs...)
		return nil
	})
	if err != nil {
		tr.Fatal(err)
	}
}

// direct publishes without an outbox, as a duplicate comes.
func (tr *trial) direct(m waybill.Message) {
	tr.Helper()
	m.Source = "shop"
	m.Complete()
	if err := tr.broker.Publisher().Send(tr.ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]; err != nil {
		tr.Fatal(err)
	}
}

// start runs a part until the returned function is called.
func (tr *trial) start(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(tr.ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			tr.Error(err)
		}
	}
}

// pass lets the time of the bubble pass, and everything happen that is due meanwhile.
func pass(d time.Duration) { <-time.After(d) }

func (tr *trial) relay(store *moodyStore, pub contract.Publisher, cfg relay.Config) *relay.Relay {
	cfg.Observer, cfg.CleanupInterval, cfg.Retention = tr.all, time.Minute, time.Hour
	r, err := relay.NewFanout(store, []relay.Destination{{Name: "main", Publisher: pub}}, cfg)
	if err != nil {
		tr.Fatal(err)
	}
	return r
}

func (tr *trial) consumer(name, topic string, h consumer.Handler[*memstore.Tx], cfg consumer.Config) *consumer.Consumer[*memstore.Tx] {
	s := from(tr.broker, consumer.Subscription{Group: name, Topics: []string{topic}})
	s.sub = moodySubscriber{s.sub, new(atomic.Bool)}
	cfg.Observer = tr.all
	c, err := consumer.New(s, s.of, tr.store, h, cfg)
	if err != nil {
		tr.Fatal(err)
	}
	return c
}

// TestEveryMetric provokes every metric of docs/metrics.md, each of its labels with a value.
// Payloads, header values and passwords appear neither in metrics nor in log records.
//
//test:sessions
func TestEveryMetric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		pub := &moodyPublisher{Publisher: tr.broker.Publisher(), fails: map[string]error{
			"retry":  errors.New("later"),
			"waits":  errors.New("later"),
			"first":  errors.New("refused late"),
			"paused": waybill.UnavailableError(errDatabase),
			"silent": waybill.UnavailableError(context.DeadlineExceeded),
		}}
		r := tr.relay(tr.store, pub, relay.Config{Node: "r1"})
		tr.registry.MustRegister(tr.observer, promobserve.NewCollector(promobserve.CollectorConfig{
			Relay:       func() (relay.Status, bool) { return r.Status(), true },
			Backlog:     tr.store,
			DeadLetters: tr.store,
			Inbox:       tr.store,
			Schedules:   tr.store,
			Sagas:       stuckSagas{},
			Upkeep:      someUpkeep{},
			Lag:         tr.lag,
			Clock:       tr.store.clock,
		}))
		stop := tr.flow(r)
		tr.retries()
		tr.deadLetters()
		tr.leaseLost()
		tr.leasedConsumer()
		tr.schedules()
		tr.sagas()
		tr.cleanUp()
		tr.lateReply()
		tr.failures()
		tr.inboxService()
		tr.checkMetrics()
		stop()
		if !strings.Contains(tr.log.String(), "kind=transient error=later") {
			t.Error("the log does not say why the relay tries again")
		}
		if !strings.Contains(tr.log.String(), "level=WARN msg=dedup_expired name=r1 destination=main topic=orders type=orders message_id=silent count=1 ") {
			t.Error("the log does not say which message may be doubled")
		}
		for _, secret := range secrets {
			if strings.Contains(tr.log.String(), secret) {
				t.Errorf("%s is in the log:\n%s", secret, tr.log.String())
			}
		}
	})
}

// flow is what goes well, and starts the relay and two consumers.
func (tr *trial) flow(r *relay.Relay) (stop func()) {
	moods := map[string]error{
		"conflict": waybill.ConflictError(errors.New("deadlock")),
		"handler":  errDatabase,
		"away":     waybill.UnavailableError(errDatabase),
	}
	var mu sync.Mutex
	billing := tr.consumer("billing", "orders", func(_ context.Context, _ *memstore.Tx, m *waybill.Message) error {
		mu.Lock()
		defer mu.Unlock()
		if m.ID == "dead" {
			return waybill.PermanentError(waybill.ReasonRejected, errDatabase)
		}
		err := moods[m.ID]
		delete(moods, m.ID)
		return err
	}, consumer.Config{Retry: waybill.RetryPolicy{BaseDelay: time.Minute, MaxDelay: time.Minute, DisableJitter: true}})
	strict := tr.consumer("strict", "orders", func(_ context.Context, _ *memstore.Tx, m *waybill.Message) error {
		if m.ID == "dead" {
			return waybill.PermanentError(waybill.ReasonRejected, errDatabase)
		}
		return nil
	}, consumer.Config{DisableDeadLetters: true})
	stops := []func(){tr.start(billing.Run), tr.start(strict.Run)}
	tr.enqueue(waybill.Message{ID: "plain", Topic: "orders"})
	tr.enqueue(waybill.Message{ID: "plain", Topic: "orders"}) // pending already
	tr.enqueue(waybill.Message{ID: "some day", Topic: "orders", DeliverAt: time.Now().AddDate(1, 0, 0)})
	if _, err := tr.writer.InTx(tr.ctx, func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
		rec.Record(waybill.Message{})
		return nil
	}); err == nil {
		tr.Error("a message without a topic is stored")
	}
	stops = append(stops, tr.start(r.Run))
	pass(10 * time.Second)
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// retries is what goes well in the end.
func (tr *trial) retries() {
	tr.enqueue(waybill.Message{ID: "retry", Topic: "orders"})
	tr.enqueue(waybill.Message{ID: "first", Topic: "orders", Key: "k"}, waybill.Message{ID: "second", Topic: "orders", Key: "k"})
	tr.enqueue(waybill.Message{ID: "conflict", Topic: "orders"}, waybill.Message{ID: "handler", Topic: "orders"}, waybill.Message{ID: "away", Topic: "orders"})
	pass(10 * time.Second)
	tr.direct(secretive(waybill.Message{ID: "handler", Topic: "orders"})) // its retry is not due
	tr.direct(secretive(waybill.Message{ID: "plain", Topic: "orders"}))
	tr.direct(waybill.Message{ID: "plain", Topic: "orders", Payload: []byte("another")})
	pass(2 * time.Minute)
	tr.enqueue(waybill.Message{ID: "paused", Topic: "orders"})
	pass(time.Minute)
	tr.enqueue(waybill.Message{ID: "silent", Topic: "orders"})
	pass(time.Minute)
}

// deadLetters leaves one letter of each origin, and has one more run again, in vain.
func (tr *trial) deadLetters() {
	tr.enqueue(waybill.Message{ID: "lost", Topic: "nowhere"}, waybill.Message{ID: "dead", Topic: "orders"})
	pass(time.Minute)
	for _, l := range tr.letters() {
		if l.Consumer == "billing" && l.Message.ID == "dead" {
			tr.requeue(l)
		}
	}
	pass(time.Minute)
	gone := newMoodyStore()
	if err := gone.InsertRaw("nowhere", "", "", "s3cr3t-payload"); err != nil {
		tr.Fatal(err)
	}
	stop := tr.start(tr.relay(gone, tr.broker.Publisher(), relay.Config{Node: "r2", DisableDeadLetters: true}).Run)
	pass(time.Minute)
	stop()
}

func (tr *trial) letters() []deadletter.Letter {
	tr.Helper()
	letters, err := tr.store.DeadLetters(tr.ctx, deadletter.Filter{})
	if err != nil {
		tr.Fatal(err)
	}
	return letters
}

func (tr *trial) requeue(l deadletter.Letter) {
	tr.Helper()
	if _, err := tr.store.RequeueDeadLetter(tr.ctx, l.Number, deadletter.Act{By: "test"}); err != nil {
		tr.Fatal(err)
	}
}

// leaseLost has another relay find the lease expired.
func (tr *trial) leaseLost() {
	tr.store.ahead.Store(int64(time.Minute))
	if _, err := tr.store.RenewLanes(tr.ctx, contract.LeaseRequest{Node: "thief", Join: true, TTL: time.Second}); err != nil {
		tr.Fatal(err)
	}
	pass(20 * time.Second)
}

// lag is that of the consumer billing, whose own subscriber is hidden.
func (tr *trial) lag(ctx context.Context) (map[string]contract.Lag, error) {
	sub := tr.broker.Subscriber(consumer.Subscription{Group: "billing", Topics: []string{"orders"}})
	lag, err := sub.(contract.Lagger).Lag(ctx)
	return map[string]contract.Lag{"billing": lag}, err
}

// leasedConsumer has a consumer handle one message while the lease store is away, and lose the
// lease of the next one.
func (tr *trial) leasedConsumer() {
	store := newMoodyStore()
	leases := consumer.Leases{Bus: "mem", FailOpen: true, Letters: consumer.LettersIn[*memstore.Tx](store)}
	store.failBegin.Store(true)
	handle := func(ctx context.Context, m *waybill.Message) error {
		if l, ok := lease.FromContext(ctx); ok && m.ID == "stolen" {
			store.ahead.Store(int64(time.Hour))
			if _, err := store.TryBegin(ctx, lease.Request{Key: l.Key, TTL: time.Second}); err != nil {
				tr.Error(err)
			}
		}
		return nil
	}
	sub := consumer.Subscription{Group: "mailer", Topics: []string{"mails"}}
	c, err := consumer.NewLeased(tr.broker, sub, store, handle, leases, consumer.Config{Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	stop := tr.start(c.Run)
	tr.direct(secretive(waybill.Message{ID: "unleased", Topic: "mails"}))
	pass(time.Second)
	store.failBegin.Store(false)
	tr.direct(secretive(waybill.Message{ID: "stolen", Topic: "mails"}))
	pass(10 * time.Second)
	stop()
}

func (tr *trial) cleanUp() {
	tr.store.failClean.Store(true)
	pass(2 * time.Hour)
	old := newMoodyStore()
	m := waybill.Message{ID: "old", Topic: "orders", Source: "shop"}
	m.Complete()
	if _, err := inbox.Process(tr.ctx, old, "billing", &m, func(context.Context, *memstore.Tx) error { return nil }); err != nil {
		tr.Fatal(err)
	}
	old.ahead.Store(int64(8 * 24 * time.Hour))
	j, err := janitor.New(old, janitor.Config{Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	if _, err := j.Clean(tr.ctx); err != nil {
		tr.Fatal(err)
	}
}

// schedules lets one occurrence be enqueued and those before it be too late.
func (tr *trial) schedules() {
	store := newMoodyStore()
	s, err := schedule.NewScheduler(store, schedule.Config{Source: "shop", Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	if _, err := store.Transact(tr.ctx, func(ctx context.Context, tx *memstore.Tx) (outbox.Batch, error) {
		return outbox.Batch{}, s.Put(ctx, tx, schedule.Recurring{Name: "sweep", Every: time.Hour, Message: waybill.Message{Topic: "orders"}})
	}); err != nil {
		tr.Fatal(err)
	}
	store.ahead.Store(int64(24 * time.Hour))
	r, err := schedule.NewRunner(store, schedule.RunnerConfig{Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	if err := r.RunOnce(tr.ctx); err != nil {
		tr.Fatal(err)
	}
}

// stuckSagas counts one instance.
type stuckSagas struct{}

func (stuckSagas) SagaCounts(context.Context) ([]saga.Count, error) {
	return []saga.Count{{Saga: "order", Status: saga.Stuck, Count: 1, Idle: time.Hour}}, nil
}

// someUpkeep has an open transaction.
type someUpkeep struct{}

func (someUpkeep) OutboxUpkeep(context.Context) (inspect.Upkeep, error) {
	return inspect.Upkeep{DeadRows: 1, OldestOpen: time.Minute, Held: map[string]int64{"session": 1}, ArchiveDays: 9}, nil
}

// sagas reports a change of an instance, and a message for one that has ended.
func (tr *trial) sagas() {
	tr.all.Observe(tr.ctx, observe.Event{Op: observe.OpSaga, Name: "order", Status: string(saga.Running), Count: 1})
	tr.all.Observe(tr.ctx, observe.Event{Op: observe.OpIgnore, Name: "order", Status: "ended", Count: 1})
}

// failures are those of the database.
func (tr *trial) failures() {
	tr.store.failClaim.Store(true)
	tr.store.failClock.Store(true)
	tr.enqueue(waybill.Message{ID: "late", Topic: "orders"})
	pass(10 * time.Second)
	if _, err := tr.registry.Gather(); err != nil {
		tr.Fatal(err)
	}
	pass(10 * time.Second)
	tr.enqueue(waybill.Message{ID: "waits", Topic: "orders"}) // for its second attempt, when the metrics are read
	pass(100 * time.Millisecond)
}

// inboxService answers a request, and refuses another one.
func (tr *trial) inboxService() {
	server, err := inboxhttp.NewServer(memstore.New(), inboxhttp.Config{Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	for _, body := range []string{`{"key":"s3cr3t-payload"}`, `{"key":"s3cr3t-payload`} {
		r := httptest.NewRequestWithContext(tr.ctx, http.MethodPost, "/v1/inbox/try-begin", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		server.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// lateReply sends a reply that nobody waits for.
func (tr *trial) lateReply() {
	replies := make(chan string, 1)
	c, err := request.NewClient(tellReplies{tr.broker, replies}, request.Config{Source: "shop", Observer: tr.all})
	if err != nil {
		tr.Fatal(err)
	}
	stop := tr.start(c.Run)
	tr.direct(secretive(waybill.Message{To: <-replies, Type: "reply"}))
	pass(time.Second)
	stop()
}

// tellReplies tells where the replies to a client go.
type tellReplies struct {
	*membroker.Broker
	address chan<- string
}

func (b tellReplies) OpenReplies(ctx context.Context) (string, contract.Subscriber, error) {
	address, replies, err := b.Broker.OpenReplies(ctx)
	b.address <- address
	return address, replies, err
}

func (tr *trial) checkMetrics() {
	families, err := tr.registry.Gather()
	if err != nil {
		tr.Fatal(err)
	}
	for _, want := range documentedMetrics(tr.T) {
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == want.name })
		if i < 0 {
			tr.Errorf("%s did not appear", want.name)
			continue
		}
		tr.checkMetric(families[i], want)
		if want.name == "waybill_cleanup_rows_total" {
			tr.checkCleaned(families[i])
		}
	}
	for _, f := range families {
		for _, secret := range secrets {
			if strings.Contains(f.String(), secret) {
				tr.Errorf("%s is in %s", secret, f)
			}
		}
	}
}

// checkCleaned: the janitor has removed one record of the inbox, relays rows of the archive.
func (tr *trial) checkCleaned(f *dto.MetricFamily) {
	removed := make(map[string]float64)
	for _, m := range f.GetMetric() {
		removed[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	if removed["inbox"] != 1 || removed["outbox_archive"] == 0 || removed["dead_letters"] != 0 {
		tr.Errorf("rows removed: %v, want one of the inbox, and some of the archive", removed)
	}
}

func (tr *trial) checkMetric(f *dto.MetricFamily, want documentedMetric) {
	if kind := strings.ToLower(f.GetType().String()); kind != want.kind {
		tr.Errorf("%s is a %s, documented as a %s", want.name, kind, want.kind)
	}
	seen, sum := make(map[string]bool), 0.0
	for _, m := range f.GetMetric() {
		sum += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		for _, l := range m.GetLabel() {
			seen[l.GetName()] = seen[l.GetName()] || l.GetValue() != ""
		}
	}
	if want.kind != "gauge" && sum == 0 {
		tr.Errorf("%s was not provoked", want.name)
	}
	for _, label := range want.labels {
		if !seen[label] {
			tr.Errorf("%s has no sample with a value of %s: %v", want.name, label, f.GetMetric())
		}
		delete(seen, label)
	}
	if len(seen) > 0 {
		tr.Errorf("%s has labels that are not documented: %s", want.name, fmt.Sprint(seen))
	}
}
