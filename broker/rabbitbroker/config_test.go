package rabbitbroker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestConfig_Refused(t *testing.T) {
	t.Parallel()
	const url = "amqp://user:s3cret@localhost/"
	for _, test := range []struct {
		name, field string
		cfg         Config
	}{
		{"no URL", "URL", Config{}},
		{"other scheme", "URL", Config{URL: "http://user:s3cret@localhost"}},
		{"broken URL", "URL", Config{URL: "amqp://user:s3cret@local\x7fhost"}},
		{"broken second URL", "URL", Config{URL: url + ",amqp://user:s3cret@local\x7fhost"}},
		{"broken port", "URL", Config{URL: "amqp://user:s3cret@localhost:s3cret"}},
		{"reserved exchange", "Exchange", Config{URL: url, Exchange: "amq.direct"}},
		{"long exchange", "Exchange", Config{URL: url, Exchange: strings.Repeat("x", 256)}},
		{"unknown queue type", "QueueType", Config{URL: url, QueueType: "stream"}},
		{"reserved dead letters", "DeadLetterExchange", Config{URL: url, DeadLetterExchange: "amq.fanout"}},
		{"dead letters among topics", "DeadLetterExchange", Config{URL: url, Exchange: "e", DeadLetterExchange: "e"}},
		{"negative timeout", "ConnectTimeout", Config{URL: url, ConnectTimeout: -1}},
		{"negative heartbeat", "Heartbeat", Config{URL: url, Heartbeat: -time.Second}},
		{"split second", "Heartbeat", Config{URL: url, Heartbeat: 1500 * time.Millisecond}},
		{"rare heartbeat", "Heartbeat", Config{URL: url, Heartbeat: time.Hour + time.Second}},
		{"negative payload", "MaxPayload", Config{URL: url, MaxPayload: -1}},
	} {
		_, err := Open(context.Background(), test.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("%s: Open() = %v, want an InvalidError of %s", test.name, err, test.field)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: Open() = %v, which holds the password", test.name, err)
		}
	}
}

func TestConfig_Accepted(t *testing.T) {
	t.Parallel()
	for _, cfg := range []Config{
		{URL: "amqp://"},
		{URL: "amqps://user:pass@host:1234/vhost?heartbeat=5"},
		{URL: "amqp://host", Exchange: "amq.topic", QueueType: QuorumQueue, Heartbeat: time.Hour},
		{URL: "amqp://host", Exchange: strings.Repeat("x", 255), Heartbeat: time.Second, MaxPayload: 1},
	} {
		if _, _, err := cfg.withDefaults(); err != nil {
			t.Errorf("withDefaults(%+v) = %v", cfg, err)
		}
	}
	got, nodes, err := Config{URL: "amqp://user:pass@host"}.withDefaults()
	want := Config{URL: got.URL, Exchange: "waybill", ConnectTimeout: 10 * time.Second,
		Heartbeat: 10 * time.Second, MaxPayload: 128 << 20, Log: slog.Default()}
	if err != nil || got != want || addresses(nodes) != "host:5672" {
		t.Errorf("withDefaults() = %+v, %q, %v, want %+v and host:5672", got, addresses(nodes), err, want)
	}
}

func TestNodesOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ urls, want string }{
		{"amqp://", "localhost:5672"},
		{"amqp://a/v,amqp://b:1/v,amqps://u:p@c/v?heartbeat=5", "a:5672, b:1, c:5671"},
		{" amqp://a , amqp://b ", "a:5672, b:5672"},
		{"amqp://user:pass,word@a,amqp://user:pass,word@b", "a:5672, b:5672"},
	} {
		nodes, err := nodesOf(test.urls)
		if err != nil || addresses(nodes) != test.want {
			t.Errorf("nodesOf(%q) = %v, %v, want %s", test.urls, nodes, err, test.want)
		}
	}
	for _, urls := range []string{"amqp://a/v,amqp://b/w", "amqp://a,", "amqp://a,b", "amqp://a,http://b", ",amqp://a"} {
		if nodes, err := nodesOf(urls); err == nil {
			t.Errorf("nodesOf(%q) = %v, want an error", urls, nodes)
		}
	}
}

func TestDiscoveryConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg   DiscoveryConfig
		field string // that is wrong; "" if none is
	}{
		{DiscoveryConfig{}, ""},
		{DiscoveryConfig{Exchange: "sora", Prefix: "sora.discovery"}, ""},
		{DiscoveryConfig{Exchange: "amq.topic"}, "DiscoveryConfig.Exchange"},
		{DiscoveryConfig{Prefix: strings.Repeat("p", 51)}, "DiscoveryConfig.Prefix"},
		{DiscoveryConfig{Prefix: "a.*"}, "DiscoveryConfig.Prefix"},
		{DiscoveryConfig{Prefix: "a..b"}, "DiscoveryConfig.Prefix"},
		{DiscoveryConfig{Prefix: "a."}, "DiscoveryConfig.Prefix"},
	} {
		_, err := new(Broker).Discovery(c.cfg)
		var invalid *waybill.InvalidError
		if c.field == "" && err != nil || c.field != "" && (!errors.As(err, &invalid) || invalid.Field != c.field) {
			t.Errorf("%+v: %v, want the field %q refused", c.cfg, err, c.field)
		}
	}
}
