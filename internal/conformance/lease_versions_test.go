package conformance

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/inbox/lease"
)

// olderVersion does to a key what a store did that knew neither waits nor payloads.
type olderVersion struct {
	begin   func(t *testing.T, key string) (id string)
	release func(t *testing.T, key, id string)
	mark    func(t *testing.T, key, id string)
}

// testLeaseVersions runs a store together with its older version, as while a service is updated.
func testLeaseVersions(t *testing.T, s lease.Store, old olderVersion) {
	t.Helper()
	ctx := context.Background()
	named := func(key, hash string) lease.Request {
		return lease.Request{Key: key, TTL: time.Minute, PayloadHash: hash}
	}
	try := func(req lease.Request, want lease.Status) lease.Answer {
		t.Helper()
		a, err := s.TryBegin(ctx, req)
		if err != nil || a.Status != want || a.Conflict {
			t.Fatalf("TryBegin(%+v) = %+v, %v, want %s and no conflict", req, a, err, want)
		}
		return a
	}
	read := func(key string) lease.Record {
		t.Helper()
		r, err := s.ReadLease(ctx, key)
		must(t, err)
		return r
	}

	// A key that the older version has made has no hash, and no wait.
	id := old.begin(t, "k")
	try(named("k", "a"), lease.Busy)
	old.release(t, "k", id)
	if r := read("k"); r.Status != lease.Released || !r.DueAt.IsZero() || r.PayloadHash != "" {
		t.Errorf("released by the older version: %+v, want no wait and no hash", r)
	}
	a := try(named("k", "a"), lease.Acquired)

	// It begins a key that waits: with the lease the wait is over, and the hash is not of its payload.
	_, err := s.ReleaseLease(ctx, lease.Lease{Key: "k", ID: a.LeaseID}, lease.Release{Wait: time.Hour})
	must(t, err)
	try(named("k", "a"), lease.Busy)
	id = old.begin(t, "k")
	if r := read("k"); r.Status != lease.Busy || !r.DueAt.IsZero() || r.PayloadHash != "" || r.LeaseUntil.IsZero() {
		t.Errorf("begun by the older version: %+v, want no wait, no hash, and its lease", r)
	}
	old.release(t, "k", id)
	if r := read("k"); r.Status != lease.Released || !r.DueAt.IsZero() {
		t.Errorf("released by the older version: %+v, want no wait", r)
	}
	old.mark(t, "k", old.begin(t, "k"))
	try(named("k", "b"), lease.Processed)
	if r := read("k"); r.Token != 4 || r.Attempts != 4 || r.PayloadHash != "" || !r.DueAt.IsZero() {
		t.Errorf("processed by the older version: %+v, want 4 attempts and no hash", r)
	}
}

// olderLua is what TIME and HMGET gave the older scripts.
const olderLua = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = redis.call('HMGET', KEYS[1], 'state', 'id', 'token', 'attempts', 'ends')
local state, id = lease[1], lease[2]
local token, attempts, ends = tonumber(lease[3]), tonumber(lease[4]), tonumber(lease[5])
`

var (
	olderBegin = redis.NewScript(olderLua + `
if state == 'processed' or (state == 'leased' and ends > now) then return 'no' end
token, attempts, ends = (token or 0) + 1, (attempts or 0) + 1, now + ARGV[3]
redis.call('HSETNX', KEYS[1], 'first', now)
redis.call('HSET', KEYS[1], 'state', 'leased', 'id', ARGV[1], 'owner', ARGV[2],
  'token', token, 'attempts', attempts, 'last', now, 'ends', ends)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 'Acquired'`)
	olderEnd = redis.NewScript(olderLua + `
if state ~= 'leased' or id ~= ARGV[1] then return 'no' end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'attempts', attempts, 'last', now)
redis.call('HDEL', KEYS[1], 'ends')
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return ARGV[2]`)
)

func TestRedisStore_BesideOlderVersion(t *testing.T) {
	t.Parallel()
	client := newRedis(t)
	s, prefix := newRedisStore(t, client)
	run := func(t *testing.T, script *redis.Script, want, key string, args ...any) {
		t.Helper()
		if got, err := script.Run(context.Background(), client, []string{prefix + "lease:{}" + key}, args...).Text(); err != nil || got != want {
			t.Fatalf("the older version is answered %q, %v, want %q", got, err, want)
		}
	}
	hour := time.Hour.Milliseconds()
	testLeaseVersions(t, s, olderVersion{
		begin: func(t *testing.T, key string) string {
			id := lease.NewID()
			run(t, olderBegin, "Acquired", key, id, "older", time.Minute.Microseconds(), hour)
			return id
		},
		release: func(t *testing.T, key, id string) { run(t, olderEnd, "released", key, id, "released", hour) },
		mark:    func(t *testing.T, key, id string) { run(t, olderEnd, "processed", key, id, "processed", hour) },
	})
}

// TestMongoLeases_BesideOlderVersion: what an older version changes of a key, and what it leaves.
func TestMongoLeases_BesideOlderVersion(t *testing.T) {
	t.Parallel()
	s := openMongoLeases(t, mongoDatabase(t, mongoClient(t, mongoURL(t))), &mongoClock{})
	change := func(t *testing.T, key string, update bson.M) {
		t.Helper()
		_, err := s.db.Collection("waybill_inbox_leases").UpdateOne(context.Background(), bson.M{"_id": key}, update, options.UpdateOne().SetUpsert(true))
		must(t, err)
	}
	end := func(state string) func(*testing.T, string, string) {
		return func(t *testing.T, key, _ string) {
			change(t, key, bson.M{"$set": bson.M{"state": state, "until": nil, "last_seen": time.Now()}})
		}
	}
	testLeaseVersions(t, s, olderVersion{
		begin: func(t *testing.T, key string) string {
			id := lease.NewID()
			change(t, key, bson.M{
				"$set": bson.M{"state": "leased", "lease": id, "owner": "older", "last_seen": time.Now(), "until": time.Now().Add(time.Minute)},
				"$inc": bson.M{"token": int64(1), "attempts": 1},
			})
			return id
		},
		release: end("released"), mark: end("processed"),
	})
}
