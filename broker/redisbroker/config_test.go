package redisbroker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

func TestConfig_Refused(t *testing.T) {
	t.Parallel()
	const url = "redis://user:s3cret@127.0.0.1:1/0"
	for _, test := range []struct {
		name, field string
		cfg         Config
	}{
		{"no URL", "URL", Config{}},
		{"other scheme", "URL", Config{URL: "http://user:s3cret@localhost"}},
		{"broken port", "URL", Config{URL: "redis://user:s3cret@localhost:s3cret"}},
		{"broken Cluster", "URL", Config{URL: "redis://user:s3cret@a:1?addr=b:s3cret:s3cret&x=y"}},
		{"broken Sentinels", "URL", Config{URL: "redis://a:1?master_name=shop&sentinel_password=s3cret&x=y"}},
		{"URL and Options", "Options", Config{URL: url, Options: &redis.UniversalOptions{}}},
		{"brace in the prefix", "Prefix", Config{URL: url, Prefix: "a{b"}},
		{"long prefix", "Prefix", Config{URL: url, Prefix: strings.Repeat("x", 101)}},
		{"negative replicas", "Replicas", Config{URL: url, Replicas: -1}},
		{"negative payload", "MaxPayload", Config{URL: url, MaxPayload: -1}},
		{"short ClaimAfter", "ClaimAfter", Config{URL: url, ClaimAfter: 15 * time.Second}},
		{"negative KeepFor", "KeepFor", Config{URL: url, KeepFor: -time.Second}},
		{"KeepFor below its unit", "KeepFor", Config{URL: url, KeepFor: time.Microsecond}},
	} {
		_, err := Open(context.Background(), test.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "redisbroker."+test.field {
			t.Errorf("%s: Open() = %v, want an InvalidError of %s", test.name, err, test.field)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: Open() = %v, which holds the password", test.name, err)
		}
	}
}

func TestConfig_Defaults(t *testing.T) {
	t.Parallel()
	got, err := Config{URL: "redis://a"}.withDefaults()
	want := Config{URL: "redis://a", Prefix: "waybill:", MaxPayload: waybill.MaxPayloadLen, ClaimAfter: 30 * time.Second, Log: slog.Default()}
	if err != nil || got != want {
		t.Errorf("withDefaults() = %+v, %v, want %+v", got, err, want)
	}
	for _, cfg := range []Config{
		{URL: "redis://a?addr=b:2&addr=c:3"},
		{URL: "redis://a?addr=b:2&master_name=shop&max_retries=5"},
		{Options: &redis.UniversalOptions{Addrs: []string{"a:1", "b:2"}, MaxRetries: 5}},
		{URL: "rediss://u:p@a:1/3", Prefix: strings.Repeat("x", 100), ClaimAfter: 15*time.Second + 1, KeepFor: time.Millisecond},
	} {
		cfg, err := cfg.withDefaults()
		if err != nil {
			t.Errorf("withDefaults() = %v", err)
			continue
		}
		client, err := cfg.client(7)
		if err != nil {
			t.Errorf("client() = %v", err)
			continue
		}
		checkClient(t, client)
	}
}

// checkClient makes sure that a client repeats nothing and heeds contexts.
func checkClient(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	defer client.Close()
	retries, heeds, size := 1, false, 0
	switch c := client.(type) {
	case *redis.Client:
		retries, heeds, size = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled, c.Options().PoolSize
	case *redis.ClusterClient:
		retries, heeds, size = c.Options().MaxRetries, c.Options().ContextTimeoutEnabled, c.Options().PoolSize
	}
	if retries > 0 || !heeds || size != 7 {
		t.Errorf("%T repeats %d times, heeds contexts: %v, pool of %d", client, retries, heeds, size)
	}
}
