package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	// pollInterval is how long a read waits for new messages, and how often a reader asks for entries that
	// are due or were abandoned by others.
	pollInterval = 500 * time.Millisecond

	// trimInterval is how often a reader removes what all groups have acknowledged.
	trimInterval = time.Second

	// maxRead is how many entries are requested at once, even if there is room for more.
	maxRead = 500
)

// backoff returns how long to wait after the given number of failures in a row.
func backoff(failures int) time.Duration {
	return brokerkit.Spread(brokerkit.Backoff(50*time.Millisecond, failures))
}

// reader receives from one source for one Subscribe, in a goroutine of its own.
type reader struct {
	source
	run      *run
	broker   *Broker
	consumer string
	share    int           // of the prefetch
	freed    chan struct{} // has a value if there may be room again

	// Used while receiving only.
	claimed bool // has claimed once
	owed    int  // given back before that, and still to be read

	mu    sync.Mutex
	held  int       // deliveries that are not settled
	due   time.Time // when to ask for what is due and what has expired
	acked bool      // something was acknowledged since the last trim
}

// room returns how many entries may be requested.
func (r *reader) room() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return min(r.share-r.held, maxRead)
}

// settled removes one delivery.
func (r *reader) settled(d *delivery) {
	r.broker.open.Remove(d)
	r.mu.Lock()
	r.held--
	r.mu.Unlock()
	handover.Signal(r.freed)
	if d.fate.Handed() {
		r.run.queue.Free()
	}
}

// progressed records that something was acknowledged.
func (r *reader) progressed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acked = true
}

// dueIn makes the reader ask no later than in delay.
func (r *reader) dueIn(delay time.Duration) {
	at := time.Now().Add(delay)
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Before(r.due) {
		r.due = at
	}
}

func (r *reader) untilDue() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Until(r.due)
}

// receive reads until ctx is done. Entries that were given back before come before new ones; after that,
// due or expired entries and new ones alternate.
func (r *reader) receive(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; {
		err := r.claim(ctx)
		if err == nil && r.owed == 0 {
			err = r.read(ctx)
		}
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if err = r.recreate(ctx, err); err != nil && !waybill.IsUnavailable(err) {
			r.run.queue.Fail(err)
			return
		}
		loop.Sleep(ctx, backoff(failures))
	}
}

// recreate recreates stream and group if they are gone. It returns the remaining error.
func (r *reader) recreate(ctx context.Context, err error) error {
	if gone(err) {
		err = r.broker.declare(ctx, r.source)
	}
	return err
}

// awaitRoom returns for how many entries there is room; 0 if ctx is done.
func (r *reader) awaitRoom(ctx context.Context) int {
	for ctx.Err() == nil {
		if n := r.room(); n > 0 {
			return n
		}
		select {
		case <-ctx.Done():
		case <-r.freed:
		}
	}
	return 0
}

// claim asks for entries that are due and those that others have abandoned, if it is time to.
func (r *reader) claim(ctx context.Context) error {
	if r.untilDue() > 0 {
		return nil
	}
	room := r.awaitRoom(ctx)
	if room == 0 {
		return nil
	}
	r.mu.Lock()
	r.due = time.Now().Add(pollInterval)
	r.mu.Unlock()
	command, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	reply, err := claimScript.Run(command, r.broker.client, r.keys(),
		r.group, r.consumer, waiting, room, r.broker.cfg.ClaimAfter.Milliseconds()).Slice()
	if err != nil {
		r.dueIn(0)
		return classify("claim deliveries", err)
	}
	next, left, entries, err := parseClaim(reply)
	if err != nil {
		return err
	}
	if r.claimed {
		left = min(left, max(r.owed-len(entries), 0))
	}
	r.claimed, r.owed = true, left
	if next >= 0 {
		r.dueIn(next)
	}
	if len(entries) == room {
		r.dueIn(0)
	}
	r.deliver(entries, true)
	return nil
}

// read waits for new entries, until the next claim is due at the latest.
func (r *reader) read(ctx context.Context) error {
	room := r.awaitRoom(ctx)
	if room == 0 {
		return nil
	}
	block := min(r.untilDue(), pollInterval)
	if block < time.Millisecond {
		block = -1 // 0 would be forever
	}
	command, cancel := context.WithTimeout(context.Background(), max(block, 0)+commandTimeout)
	defer cancel()
	streams, err := r.broker.reads.XReadGroup(command, &redis.XReadGroupArgs{
		Group: r.group, Consumer: r.consumer, Streams: []string{r.stream, ">"}, Count: int64(room), Block: block,
	}).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	if err != nil {
		return classify("read", err)
	}
	for _, s := range streams {
		r.deliver(s.Messages, false)
	}
	return nil
}

// deliver puts entries, in their order, into the queue of the run.
func (r *reader) deliver(entries []redis.XMessage, redelivered bool) {
	list := make([]*delivery, len(entries))
	for i, e := range entries {
		list[i] = &delivery{reader: r, entry: e, id: e.ID, redelivered: redelivered}
		r.broker.open.Add(list[i])
	}
	r.mu.Lock()
	r.held += len(list)
	r.mu.Unlock()
	r.run.queue.Push(list...)
}

// trim removes from the stream what all groups have acknowledged, if this one has advanced.
func (r *reader) trim(ctx context.Context) error {
	r.mu.Lock()
	acked := r.acked
	r.acked = false
	r.mu.Unlock()
	if !acked {
		return nil
	}
	err := trimScript.Run(ctx, r.broker.client, []string{r.stream}, r.broker.cfg.KeepFor.Milliseconds()).Err()
	if err != nil {
		r.progressed() // the next time, then
	}
	return classify("trim", err)
}

// parseClaim reads the reply of the claim script.
func parseClaim(reply []any) (next time.Duration, left int, entries []redis.XMessage, err error) {
	if len(reply) != 3 {
		return 0, 0, nil, errReply
	}
	ms, ok := reply[0].(int64)
	n, ok2 := reply[1].(int64)
	list, ok3 := reply[2].([]any)
	if !ok || !ok2 || !ok3 {
		return 0, 0, nil, errReply
	}
	for _, item := range list {
		e, err := parseEntry(item)
		if err != nil {
			return 0, 0, nil, err
		}
		entries = append(entries, e)
	}
	return time.Duration(ms) * time.Millisecond, int(n), entries, nil
}

// parseEntry reads an id and a list of alternating fields and values.
func parseEntry(item any) (redis.XMessage, error) {
	pair, ok := item.([]any)
	if !ok || len(pair) != 2 {
		return redis.XMessage{}, errReply
	}
	id, ok := pair[0].(string)
	fields, ok2 := pair[1].([]any)
	if !ok || !ok2 || len(fields)%2 != 0 {
		return redis.XMessage{}, errReply
	}
	values := make(map[string]any, len(fields)/2)
	for i := 0; i < len(fields); i += 2 {
		name, _ := fields[i].(string)
		values[name] = fields[i+1]
	}
	return redis.XMessage{ID: id, Values: values}, nil
}

var errReply = waybill.UnavailableError(fmt.Errorf("redisbroker: the reply of a script has another form"))
