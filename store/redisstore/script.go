package redisstore

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/span"
)

// A lease is a hash with the fields
//
//	state     leased, released or processed
//	id        of the last lease
//	token     of the last lease
//	attempts  that count
//	owner     who had the last lease, as it said
//	first     when the key was first acquired
//	last      when it was last acquired, renewed, released or processed
//	ends      the time before which nobody may begin the key: the end of the lease, or of the wait of a released
//	          key; not there if it is processed, or was released without a wait
//	hash      of the payload, as the request with that token said
//	hashed    that token
//
// Times are microseconds since 1970. That an operation is one script makes it atomic: Redis runs
// scripts one after the other. The scripts read the clock and then write, which Redis 5 and up
// replicate by their effects. They answer {status, token, attempts, ends, remaining}, and some of
// them more.
//
// Scripts of versions that know neither waits nor payloads may work on the same keys: they begin a
// key that waits, and its wait is over; and they leave the hash as it is, which hashed tells.

// loadLua reads the clock and the key.
const loadLua = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local lease = redis.call('HMGET', KEYS[1], 'state', 'id', 'token', 'attempts', 'ends', 'hash', 'hashed')
local state, id = lease[1], lease[2]
local token, attempts, ends = tonumber(lease[3]), tonumber(lease[4]), tonumber(lease[5])
local hash = ''
if lease[6] and lease[7] == lease[3] then hash = lease[6] end
`

// ownLua ends a script unless the key is leased under the id ARGV[1]. An id is drawn for each
// lease, so another one means that somebody else has begun the key since, and a repeated call that
// settled the key returns how it was settled.
const ownLua = `
if not state then return {'Unknown', 0, 0, 0, 0} end
if id ~= ARGV[1] then return {'LeaseLost', 0, 0, 0, 0} end
if state == 'released' then return {'Released', 0, attempts, 0, 0} end
if state == 'processed' then return {'Processed', 0, attempts, 0, 0} end
`

// beginScript gets id, owner, time to live of the lease, limit of attempts, hash of the payload, and
// how long to keep the key. It answers also the hash with which the key was processed. A request
// that comes again, because its answer was lost, has the same id: then the lease that is there is
// its own, and counts once. The client too repeats a call whose connection is lost.
var beginScript = newScript(6, loadLua+`
local limit = tonumber(ARGV[4])
if state == 'processed' then return {'Processed', 0, attempts, 0, 0, hash} end
local taken = ends and ends > now
if taken and state == 'leased' and id == ARGV[1] then return {'Acquired', token, attempts, ends, ends - now, ''} end
if taken then return {'Busy', 0, attempts, ends, ends - now, ''} end
if limit > 0 and attempts and attempts >= limit then return {'Exhausted', 0, attempts, 0, 0, ''} end
token, attempts, ends = (token or 0) + 1, (attempts or 0) + 1, now + ARGV[3]
redis.call('HSETNX', KEYS[1], 'first', now)
redis.call('HSET', KEYS[1], 'state', 'leased', 'id', ARGV[1], 'owner', ARGV[2], 'token', token,
  'attempts', attempts, 'last', now, 'ends', ends, 'hash', ARGV[5], 'hashed', token)
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {'Acquired', token, attempts, ends, ends - now, ''}
`)

// renewScript gets id, time to live of the lease, and how long to keep the key.
var renewScript = newScript(5, loadLua+ownLua+`
ends = now + ARGV[2]
redis.call('HSET', KEYS[1], 'last', now, 'ends', ends)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'Acquired', token, attempts, ends, ends - now}
`)

// markScript gets id, and how long to keep the key.
var markScript = newScript(5, loadLua+ownLua+`
redis.call('HSET', KEYS[1], 'state', 'processed', 'last', now)
redis.call('HDEL', KEYS[1], 'ends')
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'Processed', 0, attempts, 0, 0}
`)

// releaseScript gets id, 1 if the attempt does not count, the wait, and how long to keep the key.
var releaseScript = newScript(5, loadLua+ownLua+`
if ARGV[2] == '1' then attempts = attempts - 1 end
redis.call('HSET', KEYS[1], 'state', 'released', 'attempts', attempts, 'last', now)
local wait = tonumber(ARGV[3])
if wait > 0 then redis.call('HSET', KEYS[1], 'ends', now + wait) else redis.call('HDEL', KEYS[1], 'ends') end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {'Released', 0, attempts, 0, 0}
`)

// readScript answers {status, token, attempts, ends, first, last, owner, due, hash}, where ends is
// that of a lease and due that of a wait. It writes nothing.
var readScript = newScript(9, loadLua+`
if not state then return {'Unknown', 0, 0, 0, 0, 0, '', 0, ''} end
local status, due = 'Released', 0
if state == 'processed' then status = 'Processed' end
if state == 'leased' then status = ends and ends > now and 'Busy' or 'Expired' end
if state == 'released' then ends, due = 0, ends or 0 end
local more = redis.call('HMGET', KEYS[1], 'first', 'last', 'owner')
return {status, token, attempts, ends or 0, tonumber(more[1]), tonumber(more[2]), more[3], due, hash}
`)

// script is a text that Redis runs.
type script struct {
	*redis.Script
	values int // the number of values it answers, if the key is as it should be
}

func newScript(values int, text string) script { return script{redis.NewScript(text), values} }

// call is one run of a script on one key.
type call struct {
	key  string
	args []any
}

// run runs a script for each call, in one round trip, and returns the replies in their order. A
// server that does not have the script yet, because it was restarted or is new in the Cluster, is
// sent its text in a second one.
func (s *Store) run(ctx context.Context, op script, calls ...call) ([]reply, error) {
	cmds := s.pipeline(ctx, op.EvalSha, calls)
	var again []call
	var places []int
	for i, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			again, places = append(again, calls[i]), append(places, i)
		}
	}
	for i, cmd := range s.pipeline(ctx, op.Eval, again) {
		cmds[places[i]] = cmd
	}
	replies := make([]reply, len(cmds))
	for i, cmd := range cmds {
		values, err := cmd.Slice()
		if err != nil {
			return nil, classify(err)
		}
		if len(values) != op.values {
			return nil, errDamaged
		}
		replies[i] = values
	}
	return replies, nil
}

// pipeline returns a command for each call, with its result or its error.
func (s *Store) pipeline(ctx context.Context, eval evaluation, calls []call) []*redis.Cmd {
	cmds := make([]*redis.Cmd, len(calls))
	if len(calls) == 0 {
		return cmds
	}
	p := s.client.Pipeline()
	for i, c := range calls {
		cmds[i] = eval(ctx, p, []string{c.key}, c.args...)
	}
	_, _ = p.Exec(ctx) // the first of the errors that the commands hold
	return cmds
}

// evaluation is [redis.Script.EvalSha] or [redis.Script.Eval].
type evaluation func(ctx context.Context, c redis.Scripter, keys []string, args ...any) *redis.Cmd

// reply is what a script answers: its values are texts and 64-bit numbers.
type reply []any

func (r reply) text(i int) string {
	text, _ := r[i].(string)
	return text
}

func (r reply) number(i int) int64 {
	number, _ := r[i].(int64)
	return number
}

func (r reply) status() lease.Status { return lease.Status(r.text(0)) }

// answer returns what beginScript and renewScript say of the lease with the given id.
func (r reply) answer(id string) lease.Answer {
	a := lease.Answer{
		Status:    r.status(),
		Attempts:  int(r.number(2)),
		ExpiresAt: moment(r.number(3)),
		Remaining: span.Of(r.number(4), time.Microsecond),
	}
	if a.Status == lease.Acquired {
		a.LeaseID, a.Token = id, r.number(1)
	}
	return a
}

// record returns what readScript says.
func (r reply) record() lease.Record {
	return lease.Record{
		Status:      r.status(),
		Token:       r.number(1),
		Attempts:    int(r.number(2)),
		LeaseUntil:  moment(r.number(3)),
		FirstSeen:   moment(r.number(4)),
		LastSeen:    moment(r.number(5)),
		Owner:       r.text(6),
		DueAt:       moment(r.number(7)),
		PayloadHash: r.text(8),
	}
}

// moment returns the time of a field; 0 is the zero time.
func moment(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
