package conformance

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/store/redisstore"
	"github.com/waybill-go/waybill/store/storetest"
)

func redisURL() string {
	if u := os.Getenv("REDIS_URL"); u != "" {
		return u
	}
	return "redis://127.0.0.1:6379/0"
}

func redisOptions(t *testing.T) *redis.Options {
	t.Helper()
	options, err := redis.ParseURL(redisURL())
	must(t, err)
	return options
}

func newRedis(t *testing.T) *redis.Client {
	t.Helper()
	client := redis.NewClient(redisOptions(t))
	t.Cleanup(func() { client.Close() })
	if err := client.Ping(context.Background()).Err(); err != nil {
		t.Fatalf("Redis does not answer (%v); start it with: make services", err)
	}
	return client
}

func newRedisStore(t *testing.T, client redis.UniversalClient) (*redisstore.Store, string) {
	t.Helper()
	prefix := redisPrefix(t, client)
	s, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
	must(t, err)
	return s, prefix
}

// redisLeases is a store whose clock can be moved. Redis's cannot: instead the keys grow older,
// and the times that the store answers are put into the moved clock.
type redisLeases struct {
	*redisstore.Store
	client redis.UniversalClient
	prefix string

	mu    sync.Mutex
	moved time.Duration
}

// ageScript makes a key older by a number of microseconds.
var ageScript = redis.NewScript(`
for _, field in ipairs({'first', 'last', 'ends'}) do
  local hash = redis.call('TYPE', KEYS[1]).ok == 'hash'
  if hash and redis.call('HEXISTS', KEYS[1], field) == 1 then redis.call('HINCRBY', KEYS[1], field, -ARGV[1]) end
end
return redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) - math.floor(ARGV[1] / 1000))`)

func (s *redisLeases) advance(t *testing.T, d time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	must(t, eachRedisKey(s.client, s.prefix, func(c *redis.Client, key string) error {
		return ageScript.Run(context.Background(), c, []string{key}, d.Microseconds()).Err()
	}))
	s.moved += d
}

func (s *redisLeases) shown(at time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.IsZero() {
		return at
	}
	return at.Add(s.moved)
}

func (s *redisLeases) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	a, err := s.Store.TryBegin(ctx, req)
	a.ExpiresAt = s.shown(a.ExpiresAt)
	return a, err
}

func (s *redisLeases) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	all, err := s.Store.TryBeginAll(ctx, reqs)
	for i := range all {
		all[i].ExpiresAt = s.shown(all[i].ExpiresAt)
	}
	return all, err
}

func (s *redisLeases) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	a, err := s.Store.RenewLease(ctx, l, ttl)
	a.ExpiresAt = s.shown(a.ExpiresAt)
	return a, err
}

func (s *redisLeases) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	r, err := s.Store.ReadLease(ctx, key)
	for _, at := range []*time.Time{&r.FirstSeen, &r.LastSeen, &r.LeaseUntil, &r.DueAt} {
		*at = s.shown(*at)
	}
	return r, err
}

// TestLeases_Redis shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
func TestLeases_Redis(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, redisLeaseHarness(newRedis(t)))
}

// TestLeases_RedisCluster shows AS-40, AS-41, AS-42, AS-43, AS-44, AS-45, AS-47.
func TestLeases_RedisCluster(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, redisLeaseHarness(newRedisCluster(t)))
}

func redisLeaseHarness(client redis.UniversalClient) storetest.LeaseHarness {
	open := func(t *testing.T, prefix string, moved time.Duration) lease.BatchStore {
		t.Helper()
		s, err := redisstore.New(client, redisstore.Config{Prefix: prefix, Retention: storetest.LeaseRetention})
		must(t, err)
		return &redisLeases{Store: s, client: client, prefix: prefix, moved: moved}
	}
	return storetest.LeaseHarness{
		Features: storetest.LeaseFeatures{Persists: true, Expires: true},
		Open: func(t *testing.T) lease.BatchStore {
			t.Helper()
			return open(t, redisPrefix(t, client), 0)
		},
		Reopen: func(t *testing.T, s lease.BatchStore) lease.BatchStore {
			t.Helper()
			old := s.(*redisLeases)
			return open(t, old.prefix, old.moved)
		},
		Advance: func(t *testing.T, s lease.BatchStore, d time.Duration) {
			t.Helper()
			s.(*redisLeases).advance(t, d)
		},
	}
}

// begin acquires a key that must be free.
func begin(t *testing.T, s lease.Store, key string, ttl time.Duration) lease.Lease {
	t.Helper()
	a, err := s.TryBegin(context.Background(), lease.Request{Key: key, TTL: ttl})
	if err != nil || a.Status != lease.Acquired {
		t.Fatalf("TryBegin() = %v, %v, want Acquired", a.Status, err)
	}
	return lease.Lease{Key: key, ID: a.LeaseID, Token: a.Token}
}

func TestRedisStore_KeysExpire(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	prefix := redisPrefix(t, client)
	const retention = time.Hour
	s, err := redisstore.New(client, redisstore.Config{Prefix: prefix, Retention: retention})
	must(t, err)
	ctx := context.Background()
	begin(t, s, "leased", time.Minute)
	begin(t, s, "leased for long", 3*time.Hour)
	renewed := begin(t, s, "renewed for long", time.Minute)
	_, err = s.RenewLease(ctx, renewed, 3*time.Hour)
	must(t, err)
	_, err = s.MarkProcessed(ctx, begin(t, s, "processed", 3*time.Hour))
	must(t, err)
	_, err = s.ReleaseLease(ctx, begin(t, s, "released", 3*time.Hour), lease.Release{})
	must(t, err)
	_, err = s.ReleaseLease(ctx, begin(t, s, "waits", time.Minute), lease.Release{Wait: 5 * time.Minute})
	must(t, err)
	_, err = s.ReleaseLease(ctx, begin(t, s, "waits for long", time.Minute), lease.Release{Wait: 3 * time.Hour})
	must(t, err)
	must(t, s.SaveResponse(ctx, "key", []byte("response"), 2*time.Hour))

	want := map[string]time.Duration{
		"lease:{}leased": retention, "lease:{}processed": retention, "lease:{}released": retention,
		"lease:{}leased for long": 3 * time.Hour, "lease:{}renewed for long": 3 * time.Hour,
		"lease:{}waits": retention, "lease:{}waits for long": 3 * time.Hour,
		"response:{}key": 2 * time.Hour,
	}
	must(t, eachRedisKey(client, prefix, func(c *redis.Client, key string) error {
		left, err := c.PTTL(ctx, key).Result()
		full, known := want[key[len(prefix):]]
		if !known || left > full+time.Second || left < full-5*time.Minute {
			t.Errorf("%s expires after %v, want %v", key, left, full)
		}
		delete(want, key[len(prefix):])
		return err
	}))
	if len(want) > 0 {
		t.Errorf("keys that are not there: %v", want)
	}
}

func TestRedisStore_ReplyLost(t *testing.T) {
	t.Parallel()
	direct := newRedis(t)
	proxy, err := faultproxy.New(t.Context(), redisOptions(t).Addr)
	must(t, err)
	t.Cleanup(proxy.Close)
	options := redisOptions(t)
	options.Addr = proxy.Addr()
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	prefix := redisPrefix(t, direct)
	s, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
	must(t, err)
	begin(t, s, "to have a connection and the script", time.Minute)

	proxy.StallReplies(true)
	answer := make(chan lease.Answer)
	go func() {
		a, err := s.TryBegin(context.Background(), lease.Request{Key: "k", TTL: time.Hour})
		if err != nil {
			t.Errorf("TryBegin() after a lost reply = %v", err)
		}
		answer <- a
	}()
	waitFor(t, "Redis has run the script", func() bool {
		n, err := direct.Exists(context.Background(), prefix+"lease:{}k").Result()
		return err == nil && n == 1
	})
	proxy.Cut()
	proxy.StallReplies(false)
	if a := <-answer; a.Status != lease.Acquired || a.Attempts != 1 || a.Token != 1 {
		t.Errorf("TryBegin() that the client repeated = %+v, want the first one's answer", a)
	}
}

func TestRedisStore_SlotsOfKeysWithBraces(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	s, prefix := newRedisStore(t, client)
	for i := range 20 {
		begin(t, s, fmt.Sprintf("{tenant}%d", i), time.Minute)
	}
	slots := make(map[int64]bool)
	cluster := newRedisNode(t).client()
	must(t, eachRedisKey(client, prefix, func(_ *redis.Client, key string) error {
		slot, err := cluster.ClusterKeySlot(context.Background(), key).Result()
		slots[slot] = true
		return err
	}))
	if len(slots) < 10 {
		t.Errorf("20 keys of one tenant are in %d slots, want nearly 20", len(slots))
	}
}
