package natsbroker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill"
)

func TestConfig_Validate(t *testing.T) {
	t.Parallel()
	const url = "nats://h:4222"
	for _, c := range []struct {
		name string
		cfg  Config
		want string // in the error; "" if valid
	}{
		{"defaults", Config{URL: url}, ""},
		{"several servers", Config{URL: "nats://a:1, tls://user:pass@b:2,wss://c"}, ""},
		{"neither URL nor Conn", Config{}, "natsbroker.URL"},
		{"both URL and Conn", Config{URL: url, Conn: new(nats.Conn)}, "natsbroker.Conn"},
		{"options with Conn", Config{Conn: new(nats.Conn), Options: []nats.Option{nats.Name("x")}}, "natsbroker.Options"},
		{"no scheme", Config{URL: "h:4222"}, "natsbroker.URL"},
		{"unknown scheme", Config{URL: "http://h"}, `"http"`},
		{"unreadable second URL", Config{URL: url + ",nats://user:top%secret@h"}, "number 2"},
		{"stream with a dot", Config{URL: url, Stream: "a.b"}, "natsbroker.Stream"},
		{"stream name at the limit", Config{URL: url, Stream: strings.Repeat("s", 255)}, ""},
		{"stream name too long", Config{URL: url, Stream: strings.Repeat("s", 256)}, "limit is 255"},
		{"prefix without a dot at the end", Config{URL: url, SubjectPrefix: "app"}, "natsbroker.SubjectPrefix"},
		{"prefix with a wildcard", Config{URL: url, SubjectPrefix: "app.*."}, "natsbroker.SubjectPrefix"},
		{"prefix of the server's own", Config{URL: url, SubjectPrefix: "$JS."}, "natsbroker.SubjectPrefix"},
		{"prefix of two tokens", Config{URL: url, SubjectPrefix: "app.v1."}, ""},
		{"five replicas", Config{URL: url, Replicas: 5}, ""},
		{"six replicas", Config{URL: url, Replicas: 6}, "is 6; the range is 1 to 5"},
		{"kept forever", Config{URL: url, MaxAge: KeepForever}, ""},
		{"negative age", Config{URL: url, MaxAge: -2}, "natsbroker.MaxAge"},
		{"negative size", Config{URL: url, MaxBytes: -1}, "natsbroker.MaxBytes"},
		{"window as long as the age", Config{URL: url, MaxAge: time.Hour, DuplicateWindow: time.Hour}, ""},
		{"window longer than the age", Config{URL: url, MaxAge: time.Hour, DuplicateWindow: 2 * time.Hour}, "2h0m0s, more than MaxAge, which is 1h0m0s"},
		{"window too short", Config{URL: url, DuplicateWindow: 99 * time.Millisecond}, "natsbroker.DuplicateWindow"},
		{"ack wait at the limit", Config{URL: url, AckWait: 15 * time.Second}, "natsbroker.AckWait"},
		{"ack wait above the limit", Config{URL: url, AckWait: 15*time.Second + 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := c.cfg.withDefaults()
			var invalid *waybill.InvalidError
			switch {
			case c.want == "" && err != nil:
				t.Errorf("withDefaults() = %v, want nil", err)
			case c.want != "" && (!errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("withDefaults() = %v, want an InvalidError with %s", err, c.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("withDefaults() = %v, which shows a password", err)
			}
		})
	}
}

func TestOpen_Unreachable(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var log strings.Builder
	b, err := Open(ctx, Config{URL: "nats://user:secret@127.0.0.1:1", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatalf("Open() = %v", err)
	}
	defer b.Close()
	if text := log.String(); !strings.Contains(text, "127.0.0.1:1") || strings.Contains(text, "secret") {
		t.Errorf("Open() logged %q, want the address without the password", text)
	}
	if err := b.Ping(ctx); !waybill.IsUnavailable(err) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Ping() = %v of kind %v, want unavailable, without the password", err, waybill.KindOf(err))
	}
}

func TestReconnectDelay_Grows(t *testing.T) {
	t.Parallel()
	for round := range 100 {
		if d := reconnectDelay(round); d < 40*time.Millisecond || d > 6*time.Second {
			t.Errorf("reconnectDelay(%d) = %v, want 40ms to 6s", round, d)
		}
	}
	if early, late := reconnectDelay(1), reconnectDelay(20); early > 60*time.Millisecond || late < 4*time.Second {
		t.Errorf("delays %v and %v, want about 50ms and 5s", early, late)
	}
}

func TestDiscoveryConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefix string
		ok     bool
	}{
		{"", true},
		{"sora.discovery", true},
		{strings.Repeat("p", 51), false},
		{"a.>", false},
		{"$SYS", false},
		{"waybill", false},
		{"waybill.discovery", false}, // the stream would keep it
		{"waybills", true},
	} {
		b := &Broker{cfg: Config{SubjectPrefix: defaultSubjectPrefix}}
		_, err := b.Discovery(DiscoveryConfig{Prefix: c.prefix})
		var invalid *waybill.InvalidError
		if c.ok && err != nil || !c.ok && (!errors.As(err, &invalid) || invalid.Field != "natsbroker.DiscoveryConfig.Prefix") {
			t.Errorf("Prefix %q: %v, want it accepted: %v", c.prefix, err, c.ok)
		}
	}
}
