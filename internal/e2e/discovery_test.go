package e2e

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/discovery"
)

// meeting is where finders and announcers of a story meet on a real broker.
type meeting struct {
	brokerSettings
	broker
	transport discovery.Transport
}

// onMeetings runs a story once on each real broker.
func onMeetings(t *testing.T, story func(t *testing.T, m *meeting)) {
	t.Parallel()
	for _, kind := range []string{"nats", "rabbit"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := &meeting{brokerSettings: newBroker(t, kind)}
			m.broker = m.connect(t)
			m.transport = m.over(t, m.broker)
			if kind == "rabbit" {
				t.Cleanup(func() {
					m.onChannel(t, func(ch *amqp.Channel) error { return ch.ExchangeDelete(m.exchange(), false, false) })
				})
			}
			story(t, m)
		})
	}
}

// over returns the transport over a connection to the broker of the story.
func (m *meeting) over(t *testing.T, b broker) (transport discovery.Transport) {
	t.Helper()
	var err error
	switch b := b.(type) {
	case *natsbroker.Broker:
		transport, err = b.Discovery(natsbroker.DiscoveryConfig{Prefix: m.prefix()})
	case *rabbitbroker.Broker:
		transport, err = b.Discovery(rabbitbroker.DiscoveryConfig{Exchange: m.exchange(), Prefix: m.prefix()})
	}
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

func (m *meeting) exchange() string { return m.Name + "-discovery" }
func (m *meeting) prefix() string   { return m.Name + "-discovery" }

func inboxService(name string, priority int) discovery.Endpoint {
	return discovery.Endpoint{
		Name: name, URL: "https://" + name + ".example.com", Auth: discovery.AuthBearer,
		LeaseDefault: 45 * time.Second, RetentionDays: 14, Priority: priority,
	}
}

// announce runs an announcer until stop is called, or the story ends.
func (m *meeting) announce(t *testing.T, cfg discovery.AnnouncerConfig) (stop func()) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	a, err := discovery.NewAnnouncer(m.transport, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return inBackground(t, a.Run)
}

// impersonate answers every ping with the body that say makes for its correlation id.
func (m *meeting) impersonate(t *testing.T, say func(id string) string) {
	t.Helper()
	inBackground(t, func(ctx context.Context) error {
		return m.transport.Listen(ctx, discovery.DefaultBus, discovery.DefaultGroup, []byte(say("")),
			func(id string, _ []byte) []byte { return []byte(say(id)) })
	})
}

// inBackground runs something until stop is called, or the test ends.
func inBackground(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("in the background: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// patient is a finder's settings with which a slow machine changes no outcome.
func patient() discovery.Config {
	return discovery.Config{
		Enabled: true, AllowedHosts: []string{"*.example.com"}, Timeout: unreached, Log: slog.New(slog.DiscardHandler),
	}
}

// brief is a finder's settings for stories in which nobody answers.
func brief() discovery.Config {
	cfg := patient()
	cfg.Timeout = 300 * time.Millisecond
	return cfg
}

func (m *meeting) finder(t *testing.T, cfg discovery.Config) *discovery.Finder {
	t.Helper()
	f, err := discovery.NewFinder(m.transport, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantFound(t *testing.T, f *discovery.Finder, reason discovery.Reason, name string) discovery.Decision {
	t.Helper()
	d, err := f.Find(t.Context())
	if err != nil || d.Reason != reason || d.Endpoint.Name != name {
		t.Fatalf("Find() = %+v, %v, want %s %q", d, err, reason, name)
	}
	return d
}

// findAmong asks until a number of services could be chosen and a number were refused: the
// first pings may come before all of them listen.
func findAmong(t *testing.T, f *discovery.Finder, accepted, refused int) (d discovery.Decision) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d services are accepted, %d refused", accepted, refused), func() bool {
		var err error
		if d, err = f.Find(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d.Accepted >= accepted && d.Refused >= refused {
			return true
		}
		f.Invalidate(d.Endpoint.URL)
		return false
	})
	return d
}

// overhear returns what others publish from and to discovery: the last segment of the
// place, and the body. It hears when it returns.
func (m *meeting) overhear(t *testing.T) <-chan [2]string {
	t.Helper()
	heard := make(chan [2]string, 100)
	put := func(place, body string) { heard <- [2]string{strings.Split(place, ".")[1], body} }
	if m.Kind == "nats" {
		nc := dialNATS(t)
		if _, err := nc.Subscribe(m.prefix()+".>", func(msg *nats.Msg) { put(msg.Subject, string(msg.Data)) }); err != nil {
			t.Fatal(err)
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		return heard
	}
	ch := dialRabbit(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(ch.ExchangeDeclare(m.exchange(), "topic", true, false, false, false, nil))
	queue, err := ch.QueueDeclare("", false, true, true, false, nil)
	must(err)
	must(ch.QueueBind(queue.Name, "#", m.exchange(), false, nil))
	deliveries, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
	must(err)
	go func() {
		for d := range deliveries {
			put(d.RoutingKey, string(d.Body))
		}
	}()
	return heard
}

func dialNATS(t *testing.T) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(natsURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func dialRabbit(t *testing.T) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(rabbitURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return ch
}

func next(t *testing.T, heard <-chan [2]string) (verb, body string) {
	t.Helper()
	select {
	case got := <-heard:
		return got[0], got[1]
	case <-time.After(patience):
		t.Fatal("nothing was published")
		return "", ""
	}
}

// TestDiscoveryOverRealBrokers (AS-52): a service and a client find each other.
func TestDiscoveryOverRealBrokers(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		cfg := patient()
		cfg.Bus, cfg.Group = "rabbit/eu", "orders.billing"
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 3), Bus: cfg.Bus, Group: cfg.Group})
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("stranger", 9), Bus: cfg.Bus, Group: "orders.shipping"})
		d := findAmong(t, m.finder(t, cfg), 1, 0)
		if d.Endpoint != inboxService("inbox-1", 3) || d.Accepted != 1 {
			t.Errorf("Find() = %+v, want the one service of the group with all it says of itself", d)
		}
	})
}

// TestReplyGoesToTheAsker (AS-52): on RabbitMQ the answer comes through the default exchange to a
// queue that is bound to nothing, with the correlation id of the ping.
func TestReplyGoesToTheAsker(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0)})
		findAmong(t, m.finder(t, patient()), 1, 0) // it listens
		ping := []byte(`{"kind":"inbox","name":"a script","version":"v1"}`)
		if m.Kind == "nats" {
			msg := &nats.Msg{Subject: m.prefix() + ".ping.rabbit.workers", Data: ping, Header: nats.Header{"Correlation-Id": {"question-1"}}}
			reply, err := dialNATS(t).RequestMsg(msg, patience)
			if err != nil || reply.Header.Get("Correlation-Id") != "question-1" || !strings.Contains(string(reply.Data), `"correlationId":"question-1"`) {
				t.Errorf("reply = %+v, %v", reply, err)
			}
			return
		}
		ch := dialRabbit(t)
		queue, err := ch.QueueDeclare("", false, true, true, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		deliveries, err := ch.Consume(queue.Name, "", true, true, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = ch.Publish(m.exchange(), m.prefix()+".ping.rabbit.workers", true, false,
			amqp.Publishing{ReplyTo: queue.Name, CorrelationId: "question-1", Expiration: "2000", Body: ping})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case d := <-deliveries:
			if d.Exchange != "" || d.CorrelationId != "question-1" || !strings.Contains(string(d.Body), `"correlationId":"question-1"`) {
				t.Errorf("reply by the exchange %q with correlation id %q: %s", d.Exchange, d.CorrelationId, d.Body)
			}
		case <-time.After(patience):
			t.Error("no reply came")
		}
	})
}

// TestDiscoveryReasons (AS-53): the six ways to decide. An explicit endpoint makes no traffic.
func TestDiscoveryReasons(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		heard := m.overhear(t)
		explicit, disabled := patient(), patient()
		explicit.Endpoint, explicit.Required, disabled.Enabled = "http://127.0.0.1:8080", true, false
		for _, cfg := range []discovery.Config{explicit, disabled} {
			want := map[bool]discovery.Reason{true: discovery.ReasonExplicit, false: discovery.ReasonDisabled}[cfg.Enabled]
			if d := wantFound(t, m.finder(t, cfg), want, ""); d.Endpoint.URL != cfg.Endpoint {
				t.Errorf("Find() = %+v, want the URL %q", d, cfg.Endpoint)
			}
		}
		asks := brief()
		asks.Name = "the one that may ask"
		wantFound(t, m.finder(t, asks), discovery.ReasonNoneFound, "")
		if verb, body := next(t, heard); verb != "ping" || !strings.Contains(body, asks.Name) {
			t.Errorf("published first: %s %s, want the ping of %s", verb, body, asks.Name)
		}
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0)})
		f := m.finder(t, patient())
		if d := findAmong(t, f, 1, 0); d.Reason != discovery.ReasonDiscovered {
			t.Errorf("reason = %s, want %s", d.Reason, discovery.ReasonDiscovered)
		}
		wantFound(t, f, discovery.ReasonCached, "inbox-1")
	})
}

// TestDiscoveryBrokerAway (AS-53): each of the six reasons is reported; a fixed address asks no broker.
func TestDiscoveryBrokerAway(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		m.broker.Close()
		wantFound(t, m.finder(t, patient()), discovery.ReasonUnavailable, "")
		required := patient()
		required.Required = true
		if _, err := m.finder(t, required).Find(t.Context()); !errors.Is(err, discovery.ErrNoInbox) || !waybill.IsUnavailable(err) {
			t.Errorf("Find() = %v, want ErrNoInbox, unavailable", err)
		}
	})
}

// TestDiscoveryPriorities (AS-54): of several services the same is chosen each time, and what answers
// another question is not heard.
func TestDiscoveryPriorities(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		cfg := patient()
		cfg.SelectionWindow = 500 * time.Millisecond
		f := m.finder(t, cfg)
		m.impersonate(t, func(string) string { return body("liar", 99, "another question") })
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("low", 1)})
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("high-b", 2)})
		if d := findAmong(t, f, 2, 0); d.Endpoint.Name != "high-b" || d.Accepted != 2 || d.Refused != 0 {
			t.Errorf("Find() = %+v, want high-b of 2, for its priority", d)
		}
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("high-a", 2)})
		if d := findAmong(t, f, 3, 0); d.Endpoint.Name != "high-a" {
			t.Errorf("Find() = %+v, want high-a, for its name", d)
		}
	})
}

// body is an announcement as somebody writes it by hand.
func body(name string, priority int, id string, more ...string) string {
	return fmt.Sprintf(`{"kind":"inbox","name":%q,"version":"v1","endpoint":{"scheme":"https","url":"https://%[1]s.example.com","auth":"none"},`+
		`"priority":%d,"correlationId":%q%s}`, name, priority, id, strings.Join(more, ""))
}

// TestDiscoveryNobodyAnswers (AS-55): one warning, no error unless a service is required.
func TestDiscoveryNobodyAnswers(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		var log lockedBuffer
		cfg := brief()
		cfg.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		f := m.finder(t, cfg)
		wantFound(t, f, discovery.ReasonNoneFound, "")
		wantFound(t, f, discovery.ReasonNoneFound, "")
		if n := strings.Count(log.String(), "\n"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, log.String())
		}
		cfg.Required = true
		if _, err := m.finder(t, cfg).Find(t.Context()); !errors.Is(err, discovery.ErrNoInbox) {
			t.Errorf("Find() = %v, want ErrNoInbox", err)
		}
	})
}

// TestDiscoveryCache (AS-55): what was found is used until it does not answer.
func TestDiscoveryCache(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		stop := m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("old", 0)})
		cfg := patient()
		cfg.Timeout = 2 * time.Second
		f := m.finder(t, cfg)
		found := findAmong(t, f, 1, 0)
		stop()
		heard := m.overhear(t)
		wantFound(t, f, discovery.ReasonCached, "old")
		f.Invalidate("https://somebody.else")
		wantFound(t, f, discovery.ReasonCached, "old")
		if len(heard) > 0 {
			t.Errorf("%d words were published for what was remembered", len(heard))
		}
		f.Invalidate(found.Endpoint.URL)
		wantFound(t, f, discovery.ReasonNoneFound, "")
	})
}

// TestDiscoveryRestart (AS-55): a client that waits hears of a service when that starts.
func TestDiscoveryRestart(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		for range 2 {
			heard := m.overhear(t)
			f := m.finder(t, patient())
			answers := make(chan discovery.Decision, 1)
			go func() {
				d, err := f.Find(context.Background())
				if err != nil {
					t.Error(err)
				}
				answers <- d
			}()
			if verb, _ := next(t, heard); verb != "ping" {
				t.Fatalf("published %s, want the ping", verb)
			}
			stop := m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0)}) // after the ping
			if d := <-answers; d.Reason != discovery.ReasonDiscovered || d.Endpoint.Name != "inbox-1" {
				t.Errorf("Find() = %+v, want the service that has started", d)
			}
			if verb, _ := next(t, heard); verb != "announce" {
				t.Errorf("published %s, want the announcement", verb)
			}
			stop()
		}
	})
}

// TestRogueAnnouncer (AS-56): what leads elsewhere, or holds a secret, is refused whatever its
// priority; a signature tells the real service from one that claims its name.
func TestRogueAnnouncer(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		rogues := []func(id string) string{
			func(id string) string { return body("rogue", 99, id, `,"access_token":"hunter2"`) },
			func(id string) string {
				return strings.Replace(body("rogue", 99, id), ".example.com", ".example.net", 1)
			},
			func(id string) string { return strings.ReplaceAll(body("rogue", 99, id), "https", "http") },
			func(id string) string {
				return strings.Replace(body("rogue", 99, id), "https://", "https://u:hunter2@", 1)
			},
			func(id string) string { return strings.Repeat("x", 1<<16) },
		}
		for _, say := range rogues {
			m.impersonate(t, say)
		}
		var log lockedBuffer
		cfg := patient()
		cfg.Timeout = 2 * time.Second
		cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		if d := findAmong(t, m.finder(t, cfg), 0, len(rogues)); d.Reason != discovery.ReasonNoneFound {
			t.Errorf("Find() = %+v, want none found", d)
		}
		if strings.Contains(log.String(), "hunter2") {
			t.Errorf("the log holds a secret:\n%s", log.String())
		}

		public, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0), SigningKey: private})
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("liar", 99)}) // allowed host, no signature
		cfg.TrustedKeys = []ed25519.PublicKey{public}
		cfg.SelectionWindow = 500 * time.Millisecond
		if d := findAmong(t, m.finder(t, cfg), 1, len(rogues)+1); d.Endpoint.Name != "inbox-1" || d.Accepted != 1 {
			t.Errorf("Find() = %+v, want the one that is signed", d)
		}
	})
}

// TestNothingSecretIsAnnounced (AS-56): on the wire there are the fields of the contract only.
func TestNothingSecretIsAnnounced(t *testing.T) {
	onMeetings(t, func(t *testing.T, m *meeting) {
		heard := m.overhear(t)
		m.announce(t, discovery.AnnouncerConfig{Endpoint: inboxService("inbox-1", 0)})
		_, text := next(t, heard)
		var fields map[string]any
		if err := json.Unmarshal([]byte(text), &fields); err != nil {
			t.Fatalf("announced %s: %v", text, err)
		}
		want := []string{"correlationId", "endpoint", "kind", "leaseDefaults", "name", "priority", "retentionDays", "version"}
		if got := slices.Sorted(maps.Keys(fields)); !slices.Equal(got, want) {
			t.Errorf("announced the fields %v, want %v", got, want)
		}
		if endpoint, _ := fields["endpoint"].(map[string]any); len(endpoint) != 3 || endpoint["auth"] != "bearer" {
			t.Errorf("announced the endpoint %v", endpoint)
		}
		leaky := inboxService("inbox-1", 0)
		leaky.URL = "https://user:hunter2@inbox.example.com"
		_, err := discovery.NewAnnouncer(m.transport, discovery.AnnouncerConfig{Endpoint: leaky})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("an URL with a password: %v, want it refused without a quote", err)
		}
	})
}
