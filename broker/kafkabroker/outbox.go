package kafkabroker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/brokerkit"
)

const (
	// laneIdle is how long the producer of an idle lane is kept.
	laneIdle = time.Minute

	// deleteTimeout bounds the deletion of old records.
	deleteTimeout = 2 * time.Second
)

// outbox publishes each lane of one store's outbox with a transactional producer of its own. Only
// the relay that owns a lane uses it; if another one was wrongly considered dead, the cluster
// refuses its further commits. It is safe for concurrent use.
type outbox struct {
	cfg         Config
	topics      *topics
	partitioner kgo.Partitioner

	ctx  context.Context // ends when the broker is closed
	stop context.CancelCauseFunc
	work sync.WaitGroup // parts in progress, and clients that are being closed

	mu     sync.Mutex // guards what follows, and of lanes what is not in progress
	lanes  map[int]*lane
	closed bool
}

// lane is one lane of the outbox. Its parts are published one after the other.
type lane struct {
	number  int
	session *laneSession // nil if there is none; belongs to the current turn
	last    *turn        // the last one in line; nil if there is none
	used    time.Time
}

// turn is the place of a part in its lane's line.
type turn struct {
	part   *part
	done   chan struct{}
	failed bool // set before done is closed
}

func (t *turn) over() bool { return t == nil || brokerkit.Closed(t.done) }

// part is the messages of one lane in a batch.
type part struct {
	batch   *batch
	places  []int // in the batch
	records []*kgo.Record
}

func newOutbox(cfg Config, client *kgo.Client, t *topics) *outbox {
	o := &outbox{cfg: cfg, topics: t, lanes: make(map[int]*lane)}
	o.partitioner, _ = client.OptValue(kgo.RecordPartitioner).(kgo.Partitioner) // [Config.Options] may have set it
	o.ctx, o.stop = context.WithCancelCause(context.Background())
	return o
}

func (c Config) transactionalID(lane int) string {
	return fmt.Sprintf("%s-%d", c.TransactionalID, lane)
}

// send queues the messages of a batch, each in its lane. A nil record was refused and has its
// result.
func (o *outbox) send(ctx context.Context, b *batch, records []*kgo.Record) {
	parts := make(map[int]*part)
	for i, r := range records {
		if r == nil {
			continue
		}
		n := b.msgs[i].Row.Lane
		if parts[n] == nil {
			parts[n] = &part{batch: b}
		}
		parts[n].places = append(parts[n].places, i)
		parts[n].records = append(parts[n].records, r)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		b.ResolveAll(waybill.UnavailableError(errClosed))
		return
	}
	o.rest()
	for n, p := range parts {
		o.enter(ctx, n, p)
	}
}

// enter queues a part. The caller holds the lock.
func (o *outbox) enter(ctx context.Context, number int, p *part) {
	l := o.lanes[number]
	if l == nil {
		l = &lane{number: number}
		o.lanes[number] = l
	}
	before, mine := l.last, &turn{part: p, done: make(chan struct{})}
	follows := !before.over() && before.part.pending() // else its sender knows the result
	l.last, l.used = mine, time.Now()
	o.work.Go(func() {
		defer o.leave(l, mine)
		if before != nil {
			<-before.done
		}
		err := connectionLost() // nothing overtakes what failed before it
		if !follows || !before.failed {
			err = o.publish(ctx, l, p)
		}
		mine.failed = err != nil
		p.resolve(err)
	})
}

// leave lets the next part proceed, and keeps nothing of this one.
func (o *outbox) leave(l *lane, t *turn) {
	close(t.done)
	o.mu.Lock()
	defer o.mu.Unlock()
	if l.last == t {
		l.last = nil
	}
}

// rest closes the producers of lanes that have been idle for long: another relay may have them.
// The caller holds the lock.
func (o *outbox) rest() {
	for n, l := range o.lanes {
		if l.last.over() && time.Since(l.used) > laneIdle {
			o.drop(l)
			delete(o.lanes, n)
		}
	}
}

// drop ends the session of a lane, if it has one.
func (o *outbox) drop(l *lane) {
	if s := l.session; s != nil {
		l.session = nil
		s.lose(connectionLost())
		o.work.Go(s.client.Close)
	}
}

// publish commits a part. If a message is refused, the others go into another transaction.
func (o *outbox) publish(ctx context.Context, l *lane, p *part) error {
	for p.pending() {
		refused, err := o.commit(ctx, l, p)
		if err == nil {
			o.forget(l)
			return nil
		}
		o.drop(l)
		if !refused {
			return err
		}
	}
	return nil
}

// commit publishes what is pending of a part and not recorded, in one transaction. It reports
// whether messages were refused, which then have their results.
func (o *outbox) commit(ctx context.Context, l *lane, p *part) (refused bool, err error) {
	if err := o.open(ctx, l); err != nil {
		return false, err
	}
	places, records, ids := p.unpublished(l.session.progress)
	if len(records) > 0 {
		var errs []error
		if errs, err = l.session.publish(ctx, records, ids); err != nil {
			return o.refuse(p.batch, places, records, errs), err
		}
	}
	p.resolve(nil)
	return false, nil
}

// refuse gives messages that will never be accepted their results, and reports whether there are
// any.
func (o *outbox) refuse(b *batch, places []int, records []*kgo.Record, errs []error) (refused bool) {
	if len(errs) == 0 {
		return false
	}
	for i, r := range records {
		result := classify(fmt.Sprintf("publish to topic %q", r.Topic), errs[i])
		if waybill.IsPermanent(result) {
			refused = true
			b.Resolve(places[i], result)
		}
		if outdated(errs[i]) {
			o.topics.forget(r.Topic)
		}
	}
	return refused
}

// open makes sure that the lane has a session.
func (o *outbox) open(ctx context.Context, l *lane) error {
	if s := l.session; s != nil && s.ctx.Err() == nil {
		return nil
	}
	o.drop(l)
	if err := o.topics.lookProgress(ctx, l.number); err != nil {
		return err
	}
	s, err := o.newSession(l.number)
	if err != nil {
		return classify("make a transactional producer", err)
	}
	l.session = s
	return s.begin(ctx)
}

// forget deletes the records of a lane that are no longer needed.
func (o *outbox) forget(l *lane) {
	if before, ok := l.session.progress.cut(); ok {
		ctx, cancel := context.WithTimeout(o.ctx, deleteTimeout)
		defer cancel()
		deleteBefore(ctx, l.session.client, l.session.topic, l.number, before)
	}
}

func (o *outbox) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.stop(waybill.UnavailableError(errClosed))
	o.work.Wait()
	for _, l := range o.lanes {
		o.drop(l)
	}
	o.work.Wait()
}

func (p *part) pending() bool {
	for _, i := range p.places {
		if p.batch.Pending(i) {
			return true
		}
	}
	return false
}

// unpublished returns what has no result and is not recorded. The records are copies: the library
// may still have those of an earlier session.
func (p *part) unpublished(known *progress) (places []int, records []*kgo.Record, ids []rowID) {
	for n, i := range p.places {
		id := idOf(p.batch.msgs[i])
		if !p.batch.Pending(i) || known.has(id) {
			continue
		}
		r := *p.records[n]
		places, records, ids = append(places, i), append(records, &r), append(ids, id)
	}
	return places, records, ids
}

// resolve gives all messages of the part without a result the same one.
func (p *part) resolve(err error) {
	for _, i := range p.places {
		p.batch.Resolve(i, err)
	}
}
