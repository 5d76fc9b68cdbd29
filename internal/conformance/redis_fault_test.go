package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/store/redisstore"
)

// wantRedisAway checks that all operations of s fail as unavailable.
func wantRedisAway(t *testing.T, s *redisstore.Store) {
	t.Helper()
	ctx, held := context.Background(), lease.Lease{Key: "k", ID: "id"}
	for name, call := range map[string]func() error{
		"TryBegin":      func() error { _, err := s.TryBegin(ctx, lease.Request{Key: "k", TTL: time.Minute}); return err },
		"RenewLease":    func() error { _, err := s.RenewLease(ctx, held, time.Minute); return err },
		"MarkProcessed": func() error { _, err := s.MarkProcessed(ctx, held); return err },
		"ReleaseLease":  func() error { _, err := s.ReleaseLease(ctx, held, lease.Release{}); return err },
		"SaveResponse":  func() error { return s.SaveResponse(ctx, "k", []byte("r"), time.Minute) },
	} {
		if err := call(); !waybill.IsUnavailable(err) {
			t.Errorf("%s() = %v, a %v error, want an unavailable one", name, err, waybill.KindOf(err))
		}
	}
}

func TestRedisStore_ServerAway(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	s, err := redisstore.New(server.client(), redisstore.Config{})
	must(t, err)
	held := begin(t, s, "k", time.Hour)

	server.kill()
	wantRedisAway(t, s)
	for name, call := range map[string]func() error{
		"ReadLease":      func() error { _, err := s.ReadLease(context.Background(), "k"); return err },
		"FindResponse":   func() error { _, _, err := s.FindResponse(context.Background(), "k"); return err },
		"EvictionPolicy": func() error { _, err := s.EvictionPolicy(context.Background()); return err },
	} {
		if err := call(); !waybill.IsUnavailable(err) {
			t.Errorf("%s() = %v, want an unavailable error", name, err)
		}
	}

	if !server.start() { // it has its keys, but no script
		t.Fatal("the server does not start again")
	}
	status, err := s.MarkProcessed(context.Background(), held)
	if err != nil || status != lease.Processed {
		t.Errorf("MarkProcessed() after a restart = %v, %v, want Processed", status, err)
	}
}

func TestRedisStore_ServerRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		command []any
		reads   bool // are answered
	}{
		{name: "out of memory", command: []any{"CONFIG", "SET", "maxmemory", "1"}, reads: true},
		{name: "read only", command: []any{"REPLICAOF", "127.0.0.1", "1"}, reads: true},
		{name: "wrong password", command: []any{"CONFIG", "SET", "requirepass", "secret"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			server := newRedisChild(t)
			must(t, server.client().Do(context.Background(), tc.command...).Err())
			s, err := redisstore.New(server.client(), redisstore.Config{})
			must(t, err)
			_, err = s.TryBegin(context.Background(), lease.Request{Key: "k", TTL: time.Minute})
			if !waybill.IsUnavailable(err) {
				t.Errorf("TryBegin() = %v, want an unavailable error", err)
			}
			if _, err := s.ReadLease(context.Background(), "k"); (err == nil) != tc.reads {
				t.Errorf("ReadLease() = %v, answered: want %v", err, tc.reads)
			}
		})
	}
}

// TestRedisStore_DamagedKey: what somebody else has written where a lease should be fails that key.
func TestRedisStore_DamagedKey(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	s, prefix := newRedisStore(t, client)
	ctx := context.Background()
	must(t, client.Set(ctx, prefix+"lease:{}another kind", "not a lease", time.Minute).Err())
	must(t, client.HSet(ctx, prefix+"lease:{}no more fields", "state", "processed").Err())
	for _, key := range []string{"another kind", "no more fields"} {
		if _, err := s.TryBegin(ctx, lease.Request{Key: key, TTL: time.Minute}); !waybill.IsTransient(err) {
			t.Errorf("TryBegin() of %s = %v, a %v error, want a transient one", key, err, waybill.KindOf(err))
		}
		if _, err := s.ReadLease(ctx, key); !waybill.IsTransient(err) {
			t.Errorf("ReadLease() of %s = %v, a %v error, want a transient one", key, err, waybill.KindOf(err))
		}
	}
}

func TestRedisStore_EvictionPolicy(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	client := server.client()
	s, err := redisstore.New(client, redisstore.Config{})
	must(t, err)
	for _, want := range []string{redisstore.NoEviction, "volatile-lru"} {
		must(t, client.ConfigSet(context.Background(), "maxmemory-policy", want).Err())
		if got, err := s.EvictionPolicy(context.Background()); err != nil || got != want {
			t.Errorf("EvictionPolicy() = %q, %v, want %q", got, err, want)
		}
	}
}

func TestRedisStore_EvictionPolicyOfCluster(t *testing.T) {
	t.Parallel()
	cluster := newRedisCluster(t)
	s, err := redisstore.New(cluster, redisstore.Config{})
	must(t, err)
	if got, err := s.EvictionPolicy(context.Background()); err != nil || got != redisstore.NoEviction {
		t.Errorf("EvictionPolicy() = %q, %v, want %q", got, err, redisstore.NoEviction)
	}
	one, err := cluster.MasterForKey(context.Background(), "any")
	must(t, err)
	must(t, one.ConfigSet(context.Background(), "maxmemory-policy", "allkeys-lru").Err())
	if got, err := s.EvictionPolicy(context.Background()); err != nil || got != "allkeys-lru" {
		t.Errorf("EvictionPolicy() = %q, %v, want the one that evicts", got, err)
	}
}

// TestRedisStore_LeastRights runs the store as a user that may do what the package's comment says.
func TestRedisStore_LeastRights(t *testing.T) {
	t.Parallel()
	server := newRedisChild(t)
	ctx := context.Background()
	must(t, server.client().Do(ctx, "ACL", "SETUSER", "waybill", "on", ">secret", "~waybill:inbox:*",
		"+eval", "+evalsha", "+time", "+hmget", "+hset", "+hsetnx", "+hdel", "+pexpire", "+get", "+set", "+info").Err())
	client := redis.NewClient(&redis.Options{Addr: server.addr(), Username: "waybill", Password: "secret", MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	s, err := redisstore.New(client, redisstore.Config{})
	must(t, err)
	held := begin(t, s, "k", time.Minute)
	_, err = s.RenewLease(ctx, held, time.Minute)
	must(t, err)
	_, err = s.ReleaseLease(ctx, held, lease.Release{})
	must(t, err)
	_, err = s.MarkProcessed(ctx, begin(t, s, "k", time.Minute))
	must(t, err)
	_, err = s.ReadLease(ctx, "k")
	must(t, err)
	must(t, s.SaveResponse(ctx, "k", []byte("r"), time.Minute))
	_, _, err = s.FindResponse(ctx, "k")
	must(t, err)
	_, err = s.EvictionPolicy(ctx)
	must(t, err)

	other, err := redisstore.New(client, redisstore.Config{Prefix: "another:"})
	must(t, err)
	if _, err := other.TryBegin(ctx, lease.Request{Key: "k", TTL: time.Minute}); !waybill.IsUnavailable(err) {
		t.Errorf("TryBegin() without the right = %v, want an unavailable error", err)
	}
}
