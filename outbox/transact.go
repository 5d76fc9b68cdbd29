package outbox

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// Aggregate is a domain object that collects events.
type Aggregate interface {
	// Events returns the messages collected so far. It must not drop them.
	Events() []waybill.Message

	// ClearEvents drops them. It is called after the commit only, so that a failed or
	// repeated transaction still finds them.
	ClearEvents()
}

// Recorder collects messages during one transaction. It is not safe for concurrent use.
type Recorder struct {
	sources []source
}

// source is a message, or an aggregate that is asked for its messages at the end.
type source struct {
	message   waybill.Message
	aggregate Aggregate
}

// Record adds messages, to be enqueued in the order of the calls.
func (r *Recorder) Record(msgs ...waybill.Message) {
	for _, m := range msgs {
		r.sources = append(r.sources, source{message: m})
	}
}

// Collect adds aggregates: the events that they have when the function returns are enqueued at this
// place in the order. An aggregate that was added before keeps its place.
func (r *Recorder) Collect(aggregates ...Aggregate) {
	for _, a := range aggregates {
		if !slices.ContainsFunc(r.sources, func(s source) bool { return s.aggregate == a }) {
			r.sources = append(r.sources, source{aggregate: a})
		}
	}
}

func (r *Recorder) messages() []waybill.Message {
	var msgs []waybill.Message
	for _, s := range r.sources {
		if s.aggregate == nil {
			msgs = append(msgs, s.message)
		} else {
			msgs = append(msgs, s.aggregate.Events()...)
		}
	}
	return msgs
}

func (r *Recorder) committed() {
	for _, s := range r.sources {
		if s.aggregate != nil {
			s.aggregate.ClearEvents()
		}
	}
}

const (
	maxTransactTries = 5
	conflictBackoff  = 5 * time.Millisecond
)

// InTx runs fn in a transaction, enqueues what it recorded, commits, and wakes relays of
// this process.
//
// With pgx the enqueue and COMMIT share one round trip, so that a transaction with messages takes
// no more round trips than one without; with database/sql each takes one.
//
// An error or panic of fn rolls everything back and is passed on unchanged. If the transaction
// clashes with another one it is repeated, fn included, at most 5 times in all; fn must
// therefore keep its other effects inside tx. Each try starts with an empty recorder;
// aggregates are cleared only once the commit has succeeded. If the connection is lost
// during the commit the error is unavailable, and whether it took effect is unknown.
func (w *Writer[Tx]) InTx(ctx context.Context, fn func(ctx context.Context, tx Tx, rec *Recorder) error) (Result, error) {
	began := time.Now()
	for try := 1; ; try++ {
		rec := &Recorder{}
		var ready Batch
		end := func(error) {}
		isNew, err := w.store.Transact(ctx, func(ctx context.Context, tx Tx) (_ Batch, err error) {
			if err = fn(ctx, tx, rec); err != nil {
				return Batch{}, err
			}
			if msgs := rec.messages(); len(msgs) > 0 {
				_, ready, end, err = w.prepare(ctx, msgs)
			}
			return ready, err
		})
		end(err)
		if waybill.IsConflict(err) && try < maxTransactTries && sleep(ctx, conflictDelay(try)) {
			w.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpRepeat, Attempt: try, Err: err})
			continue
		}
		if err == nil {
			rec.committed()
		}
		return w.result(ctx, ready.Messages, isNew, err, time.Since(began))
	}
}

// conflictDelay doubles with each try and has jitter, so that competing transactions do not clash again.
func conflictDelay(try int) time.Duration {
	d := conflictBackoff << (try - 1)
	return d/2 + rand.N(d)
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
