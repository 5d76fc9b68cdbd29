// Package redisstore keeps leases of the inbox in Redis 6 and up, or in what speaks its protocol
// and runs Lua scripts: for handlers whose effects share no transaction with any store.
//
// The client is the caller's: one server, Sentinel or Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client, redisstore.Config{})
//
// With ContextTimeoutEnabled in its options the client heeds the deadlines of contexts; without
// it each try may take its ReadTimeout. A command whose reply was lost may be tried again: that
// does not acquire a key twice.
//
// A user of Redis needs the commands EVAL, EVALSHA, TIME, HMGET, HSET, HSETNX, HDEL, PEXPIRE, GET, SET
// and INFO, on the keys that begin with the prefix.
//
// Each operation is one script in one round trip, and a batch is one pipeline; only Redis's clock
// counts. A key is one hash, so it has one slot of a Cluster whatever its name is, and an expiry,
// so nothing has to be removed: the retention is its time to live.
//
// What Redis forgets is processed again. It forgets keys that it evicts, see
// [Store.EvictionPolicy]; the last second of writes when it crashes with appendfsync everysec,
// which is its default once appendonly is on, and everything since the last snapshot if it is off; and
// what a replica had not received when it took over. The tokens of a forgotten key begin at 1 again.
package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// The range of [Config.Retention].
const (
	MinRetention = time.Minute
	MaxRetention = 365 * 24 * time.Hour
)

const (
	defaultPrefix = "waybill:inbox:"
	maxPrefixLen  = 100
)

// Config names the keys and says how long they are kept.
type Config struct {
	// Prefix is put before the name of each key. Any text of up to 100 bytes without braces and
	// NUL. Stores with one prefix share their leases; no prefix should begin with another one.
	// Optional; the default is "waybill:inbox:".
	Prefix string

	// Retention is how long a key is remembered after it was last acquired, renewed, released or
	// processed, [MinRetention] to [MaxRetention]. It must exceed the time in which a message
	// may be delivered again. A lease or a wait that is longer is remembered until it ends.
	// Optional; the default is [inbox.DefaultRetention].
	Retention time.Duration
}

func (c *Config) complete() error {
	if c.Prefix == "" {
		c.Prefix = defaultPrefix
	}
	if c.Retention == 0 {
		c.Retention = inbox.DefaultRetention
	}
	switch {
	case len(c.Prefix) > maxPrefixLen:
		return invalid("Prefix", "has %d bytes, the limit is %d", len(c.Prefix), maxPrefixLen)
	case strings.ContainsAny(c.Prefix, "{}\x00"):
		return invalid("Prefix", "holds a brace or a NUL")
	case c.Retention < MinRetention || c.Retention > MaxRetention:
		return invalid("Retention", "is %v, the range is %v to %v", c.Retention, MinRetention, MaxRetention)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Store implements [lease.BatchStore]. It is safe for concurrent use, and so are several
// stores, in several processes, on one server.
type Store struct {
	client    redis.UniversalClient
	leases    string // the prefix of a lease's key
	responses string // the prefix of a response's key
	retention time.Duration
}

var _ lease.BatchStore = (*Store)(nil)

// hashWhole ends the prefix of every key. Cluster hashes the text between the first opening brace and
// the next closing one to choose the slot, or the whole name if that text is empty. Here it always is,
// so that keys that contain braces are spread like all others.
const hashWhole = "{}"

// New returns a store that uses client, which must allow scripts. The caller closes client after
// the last use of the store. An error names the field of cfg that is wrong; Redis is not asked.
func New(client redis.UniversalClient, cfg Config) (*Store, error) {
	if client == nil {
		return nil, invalid("client", "is required")
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Store{
		client:    client,
		leases:    cfg.Prefix + "lease:" + hashWhole,
		responses: cfg.Prefix + "response:" + hashWhole,
		retention: cfg.Retention,
	}, nil
}

// TryBegin implements [lease.Store].
func (s *Store) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	answers, err := s.TryBeginAll(ctx, []lease.Request{req})
	if err != nil {
		return lease.Answer{}, err
	}
	return answers[0], nil
}

// TryBeginAll implements [lease.BatchStore].
func (s *Store) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	keys, calls, ids := make([]string, len(reqs)), make([]call, len(reqs)), make([]string, len(reqs))
	for i, req := range reqs {
		if err := req.Validate(); err != nil {
			return nil, err
		}
		keys[i], ids[i] = req.Key, req.LeaseID()
		calls[i] = call{s.leases + req.Key, []any{
			ids[i], req.Owner, req.TTL.Microseconds(), req.MaxAttempts, req.PayloadHash, s.keep(req.TTL),
		}}
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	replies, err := s.run(ctx, beginScript, calls...)
	if err != nil {
		return nil, fmt.Errorf("begin %d keys: %w", len(reqs), err)
	}
	answers := make([]lease.Answer, len(replies))
	for i, r := range replies {
		answers[i] = r.answer(ids[i])
		answers[i].Conflict = reqs[i].Conflicts(r.text(5))
	}
	return answers, nil
}

// RenewLease implements [lease.Store].
func (s *Store) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := lease.ValidateKey(l.Key); err != nil {
		return lease.Answer{}, err
	}
	if err := lease.ValidateTTL(ttl); err != nil {
		return lease.Answer{}, err
	}
	replies, err := s.run(ctx, renewScript, call{s.leases + l.Key, []any{l.ID, ttl.Microseconds(), s.keep(ttl)}})
	if err != nil {
		return lease.Answer{}, fmt.Errorf("renew a lease: %w", err)
	}
	return replies[0].answer(l.ID), nil
}

// MarkProcessed implements [lease.Store].
func (s *Store) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	statuses, err := s.MarkAllProcessed(ctx, []lease.Lease{l})
	if err != nil {
		return "", err
	}
	return statuses[0], nil
}

// MarkAllProcessed implements [lease.BatchStore].
func (s *Store) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	keys, calls := make([]string, len(leases)), make([]call, len(leases))
	for i, l := range leases {
		if err := lease.ValidateKey(l.Key); err != nil {
			return nil, err
		}
		keys[i] = l.Key
		calls[i] = call{s.leases + l.Key, []any{l.ID, s.keep(0)}}
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	replies, err := s.run(ctx, markScript, calls...)
	if err != nil {
		return nil, fmt.Errorf("mark %d keys as processed: %w", len(leases), err)
	}
	statuses := make([]lease.Status, len(replies))
	for i, r := range replies {
		statuses[i] = r.status()
	}
	return statuses, nil
}

// ReleaseLease implements [lease.Store].
func (s *Store) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := lease.ValidateKey(l.Key); err != nil {
		return "", err
	}
	if err := r.Validate(); err != nil {
		return "", err
	}
	replies, err := s.run(ctx, releaseScript, call{s.leases + l.Key, []any{l.ID, r.Uncounted, r.Wait.Microseconds(), s.keep(r.Wait)}})
	if err != nil {
		return "", fmt.Errorf("release a lease: %w", err)
	}
	return replies[0].status(), nil
}

// ReadLease implements [lease.Store].
func (s *Store) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Record{}, err
	}
	replies, err := s.run(ctx, readScript, call{key: s.leases + key})
	if err != nil {
		return lease.Record{}, fmt.Errorf("read a lease: %w", err)
	}
	return replies[0].record(), nil
}

// PurgeLeases implements [lease.Store]. It removes nothing: keys expire by themselves, by the
// store's own retention.
func (s *Store) PurgeLeases(context.Context, time.Duration, int) (int, error) { return 0, nil }

// keep returns for how many milliseconds a key is kept from now on that is leased, or waits, for d.
func (s *Store) keep(d time.Duration) int64 {
	return max(s.retention, d+time.Millisecond).Milliseconds()
}
