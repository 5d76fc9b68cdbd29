package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// nowhere returns a client of no server.
func nowhere(t *testing.T) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	return client
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		cfg   Config
		wrong string // the field
	}{
		{name: "defaults"},
		{name: "longest prefix", cfg: Config{Prefix: strings.Repeat("p", 100)}},
		{name: "prefix too long", cfg: Config{Prefix: strings.Repeat("p", 101)}, wrong: "Prefix"},
		{name: "prefix with a hash tag", cfg: Config{Prefix: "{a}"}, wrong: "Prefix"},
		{name: "shortest retention", cfg: Config{Retention: MinRetention}},
		{name: "retention too short", cfg: Config{Retention: MinRetention - 1}, wrong: "Retention"},
		{name: "negative retention", cfg: Config{Retention: -1}, wrong: "Retention"},
		{name: "longest retention", cfg: Config{Retention: MaxRetention}},
		{name: "retention too long", cfg: Config{Retention: MaxRetention + 1}, wrong: "Retention"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := New(nowhere(t), tc.cfg)
			if got := field(err); got != tc.wrong {
				t.Errorf("New() = %v, want an error of %q", err, tc.wrong)
			}
		})
	}
	if _, err := New(nil, Config{}); field(err) != "client" {
		t.Errorf("New(nil) = %v, want an error of the client", err)
	}
}

// field returns the field that err complains of, and "" if it is nil.
func field(err error) string {
	var invalid *waybill.InvalidError
	if errors.As(err, &invalid) {
		return invalid.Field
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func TestStore_InvalidIsNotSent(t *testing.T) {
	t.Parallel()
	s, err := New(nowhere(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, l := context.Background(), lease.Lease{Key: "k", ID: "id"}
	twice := []lease.Request{{Key: "k", TTL: time.Minute}, {Key: "k", TTL: time.Minute}}
	for name, call := range map[string]func() error{
		"lease.Request.Key": func() error { _, err := s.TryBegin(ctx, lease.Request{TTL: time.Minute}); return err },
		"lease.Request.TTL": func() error { _, err := s.RenewLease(ctx, l, 0); return err },
		"batch[1].Key":      func() error { _, err := s.TryBeginAll(ctx, twice); return err },
		"batch":             func() error { _, err := s.MarkAllProcessed(ctx, leases(lease.MaxBatch+1)); return err },
		"ttl":               func() error { return s.SaveResponse(ctx, "k", nil, 0) },
	} {
		if err := call(); field(err) != name {
			t.Errorf("%s: error %v, want one of that field", name, err)
		}
	}
	for name, call := range map[string]func() error{
		"RenewLease":    func() error { _, err := s.RenewLease(ctx, lease.Lease{}, time.Minute); return err },
		"MarkProcessed": func() error { _, err := s.MarkProcessed(ctx, lease.Lease{}); return err },
		"ReleaseLease":  func() error { _, err := s.ReleaseLease(ctx, lease.Lease{}, lease.Release{}); return err },
		"ReadLease":     func() error { _, err := s.ReadLease(ctx, ""); return err },
	} {
		if err := call(); field(err) != "lease.Request.Key" {
			t.Errorf("%s without a key: error %v, want one of lease.Request.Key", name, err)
		}
	}
}

func TestStore_EmptyBatchAsksNobody(t *testing.T) {
	t.Parallel()
	s, err := New(nowhere(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if answers, err := s.TryBeginAll(context.Background(), nil); err != nil || len(answers) != 0 {
		t.Errorf("TryBeginAll() of nothing = %v, %v", answers, err)
	}
	if statuses, err := s.MarkAllProcessed(context.Background(), nil); err != nil || len(statuses) != 0 {
		t.Errorf("MarkAllProcessed() of nothing = %v, %v", statuses, err)
	}
}

func leases(n int) []lease.Lease {
	all := make([]lease.Lease, n)
	for i := range all {
		all[i] = lease.Lease{Key: strings.Repeat("k", i%100+1), ID: "id"}
	}
	return all
}
