package conformance

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/consumer"
)

// TestNATSBroker_StreamSettings reads back the stream that Open has created.
func TestNATSBroker_StreamSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*natsbroker.Config)
		check  func(jetstream.StreamConfig) bool
	}{
		{"defaults", func(*natsbroker.Config) {}, func(s jetstream.StreamConfig) bool {
			return s.MaxAge == 7*24*time.Hour && s.Duplicates == 2*time.Minute && s.Replicas == 1 && s.MaxBytes == -1 &&
				s.Storage == jetstream.FileStorage && s.Retention == jetstream.LimitsPolicy && s.Discard == jetstream.DiscardNew
		}},
		{"kept forever", func(c *natsbroker.Config) { c.MaxAge = natsbroker.KeepForever },
			func(s jetstream.StreamConfig) bool { return s.MaxAge == 0 }},
		{"age, window and size", func(c *natsbroker.Config) {
			c.MaxAge, c.DuplicateWindow, c.MaxBytes = time.Hour, time.Minute, 1<<20
		}, func(s jetstream.StreamConfig) bool {
			return s.MaxAge == time.Hour && s.Duplicates == time.Minute && s.MaxBytes == 1<<20
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := natsConfig(t, natsURL(t))
			c.change(&cfg)
			natsOpen(t, cfg)
			natsOpen(t, cfg) // the second time it is there
			if s := natsStream(t, cfg); !c.check(s) || len(s.Subjects) != 1 || s.Subjects[0] != cfg.SubjectPrefix+">" {
				t.Errorf("stream %+v", s)
			}
		})
	}
}

func natsStream(t *testing.T, cfg natsbroker.Config) jetstream.StreamConfig {
	t.Helper()
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	s, err := js.Stream(t.Context(), cfg.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().Config
}

// TestNATSBroker_Replicas needs more servers than there are.
func TestNATSBroker_Replicas(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	cfg.Replicas = 3
	b, err := natsbroker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	defer b.Close()
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ping() = %v with three replicas on one server, want unavailable", err)
	}
}

// TestNATSBroker_ExistingStream opens streams that somebody else has made.
func TestNATSBroker_ExistingStream(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*jetstream.StreamConfig)
		want   string // in the error; "" if it serves
	}{
		{"subjects of its own in addition to ours", func(s *jetstream.StreamConfig) {
			s.Subjects = append(s.Subjects, s.Name)
			s.MaxMsgs = 1000
		}, ""},
		{"other subjects", func(s *jetstream.StreamConfig) { s.Subjects = []string{s.Name + ".other.>"} }, "SubjectPrefix"},
		{"work queue", func(s *jetstream.StreamConfig) { s.Retention = jetstream.WorkQueuePolicy }, "work queue"},
		{"no confirmations", func(s *jetstream.StreamConfig) { s.NoAck = true }, "no_ack"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := natsConfig(t, natsURL(t))
			nc, js := natsClient(t, cfg.URL)
			defer nc.Close()
			have := jetstream.StreamConfig{Name: cfg.Stream, Subjects: []string{cfg.SubjectPrefix + ">"}}
			c.change(&have)
			if _, err := js.CreateStream(t.Context(), have); err != nil {
				t.Fatal(err)
			}
			b, err := natsbroker.Open(t.Context(), cfg)
			if err == nil {
				defer b.Close()
			}
			var invalid *waybill.InvalidError
			if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Open() = %v, want an InvalidError with %q", err, c.want)
			}
			if s := natsStream(t, cfg); len(s.Subjects) != len(have.Subjects) || have.MaxMsgs != 0 && s.MaxMsgs != have.MaxMsgs {
				t.Errorf("Open has changed the stream to %+v", s)
			}
		})
	}
}

func TestNATSBroker_NoJetStream(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the embedded NATS server does not start")
	}
	b, err := natsbroker.Open(t.Context(), natsbroker.Config{URL: s.ClientURL()})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	defer b.Close()
	if err := b.Ping(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Ping() = %v, want unavailable", err)
	}
}

// TestNATSBroker_SharedConn closes a broker on a connection that is not its own.
func TestNATSBroker_SharedConn(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	nc, _ := natsClient(t, cfg.URL)
	defer nc.Close()
	shared := cfg
	shared.URL, shared.Conn = "", nc
	first, second := natsOpen(t, shared), natsOpen(t, shared)
	natsMustSend(t, first, natsMessages("t", 1, 1))
	first.Close()
	results := natsSend(t, first, 10*time.Second, false, natsMessages("t", 2, 2))()
	natsWantAll(t, results, 1, "unavailable", waybill.IsUnavailable)
	natsMustSend(t, second, natsMessages("t", 3, 3))
	got, _ := natsSubscribe(t, second, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	natsExpect(t, got, "1", "3")
}

func TestNATSBroker_Options(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
		Username: "u", Password: "secret",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the embedded NATS server does not start")
	}
	cfg := natsbroker.Config{URL: s.ClientURL(), Options: []nats.Option{nats.UserInfo("u", "secret")}}
	b, err := natsbroker.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Open() with credentials in Options: %v", err)
	}
	b.Close()
	cfg.Options = []nats.Option{nats.UserInfo("u", "wrong-secret")}
	if b, err = natsbroker.Open(t.Context(), cfg); err != nil {
		t.Fatalf("Open() = %v with a wrong password", err)
	}
	defer b.Close()
	err = b.Ping(t.Context())
	if !waybill.IsUnavailable(err) || !errors.Is(err, nats.ErrAuthorization) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Ping() = %v with a wrong password, want unavailable, with the reason and without the password", err)
	}
}

// TestNATSBroker_NewGroup compares where a group starts that the stream does not know.
func TestNATSBroker_NewGroup(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	natsMustSend(t, natsOpen(t, cfg), natsMessages("t", 1, 2))
	all, _ := natsSubscribe(t, natsOpen(t, cfg), consumer.Subscription{Group: "all", Topics: []string{"t"}})
	natsExpect(t, all, "1", "2")

	cfg.DeliverNew = true
	b := natsOpen(t, cfg)
	got, _ := natsSubscribe(t, b, consumer.Subscription{Group: "new", Topics: []string{"t"}})
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	natsEventually(t, "the second consumer", func() bool { return len(natsConsumers(t, js, cfg.Stream)) == 2 })
	natsMustSend(t, b, natsMessages("t", 3, 3))
	natsExpect(t, got, "3")
}

func natsEventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// TestNATSBroker_AckWaitChanged subscribes a known group with another AckWait, which its
// consumer takes over while it keeps its place.
func TestNATSBroker_AckWaitChanged(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsURL(t))
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}}
	b := natsOpen(t, cfg)
	natsMustSend(t, b, natsMessages("t", 1, 1))
	got, _ := natsSubscribe(t, b, s)
	natsExpect(t, got, "1")
	b.Close()

	cfg.AckWait, cfg.DeliverNew = time.Minute, true
	b = natsOpen(t, cfg)
	got, _ = natsSubscribe(t, b, s)
	natsMustSend(t, b, natsMessages("t", 2, 2))
	natsExpect(t, got, "2")
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	names := natsConsumers(t, js, cfg.Stream)
	if len(names) != 1 {
		t.Fatalf("consumers %v, want one", names)
	}
	c, err := js.Consumer(t.Context(), cfg.Stream, names[0])
	if err != nil {
		t.Fatal(err)
	}
	if have := c.CachedInfo().Config.AckWait; have != time.Minute {
		t.Errorf("AckWait %v, want 1m", have)
	}
}
