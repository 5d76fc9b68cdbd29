package kafkabroker

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

const (
	// maxBuffered is how many records may be in flight. A relay stays far below.
	maxBuffered = 1 << 20

	// maxStrikes is how many connections in a row may end during a publish before the session is
	// dropped. Until then the client library repeats the publish, and the cluster drops duplicates.
	maxStrikes = 3

	// metadataMinAge is how soon after a lost connection the library looks up again where to publish.
	// Its own 2.5 s leave no time for a second try before a relay stops waiting.
	metadataMinAge = 250 * time.Millisecond

	// produceKey is the key of the request Produce in Kafka's protocol.
	produceKey = 0
)

// producer owns the session that publishes. It is safe for concurrent use.
type producer struct {
	cfg    Config
	topics *topics

	mu      sync.Mutex // guards what follows and the sessions' fields
	current *session   // nil before the first message
	closed  bool
	closing sync.WaitGroup // sessions that are being closed
}

// session is one idempotent producer. Within it the library repeats what the cluster did not answer,
// in order and without repetitions. Once a result is unknown for good the session is lost: all that it
// holds fails together, so that nothing overtakes what failed before it, and the next session begins
// only when the senders of what was lost have their results.
type session struct {
	client  *kgo.Client
	open    map[*batch]struct{}
	lost    bool
	strikes int // connections that ended during a publish, since the last answer
	refused int // failed attempts to connect, since the last connection and the last answer
}

// begin opens a batch, which end must close. The session is nil, and the batch has its results, if
// nothing can be written now.
func (p *producer) begin(msgs []contract.Outgoing) (*session, *batch) {
	b := newBatch(msgs)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		b.ResolveAll(waybill.UnavailableError(errClosed))
		return nil, b
	}
	if p.current != nil && p.current.lost {
		if len(p.current.open) > 0 {
			b.ResolveAll(connectionLost())
			return nil, b
		}
		p.current = nil
	}
	if p.current == nil {
		s, err := p.newSession()
		if err != nil {
			b.ResolveAll(classify("make a producer", err))
			return nil, b
		}
		p.current = s
	}
	p.current.open[b] = struct{}{}
	return p.current, b
}

func (p *producer) newSession() (*session, error) {
	s := &session{open: make(map[*batch]struct{})}
	var err error
	s.client, err = kgo.NewClient(p.cfg.options(append(p.topics.producing(), kgo.WithHooks(&watch{p, s}))...)...)
	return s, err
}

// producing are the options of each client that publishes.
func (t *topics) producing() []kgo.Opt {
	return []kgo.Opt{
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.MaxBufferedRecords(maxBuffered),
		kgo.BrokerMaxWriteBytes(math.MaxInt32 / 2),
		kgo.ProducerBatchMaxBytesFn(func(topic string) int32 { return int32(t.maxBytes(topic)) }),
	}
}

func (p *producer) end(s *session, b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(s.open, b)
}

// lose drops a session: messages of its batches with unknown outcome get the result err. It does
// nothing if the session is lost already.
func (p *producer) lose(s *session, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loseLocked(s, err)
}

func (p *producer) loseLocked(s *session, err error) {
	if s.lost {
		return
	}
	s.lost = true
	for b := range s.open {
		b.ResolveAll(err)
	}
	p.closing.Go(s.client.Close)
}

// late is the result of what was not confirmed in time: no message causes a server not to answer, but
// a connection that ended meanwhile may have done so because of a message.
func (p *producer) late(s *session, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.strikes > 0 {
		return connectionLost()
	}
	return unconfirmed(err)
}

// write hands records to the client library, in order. A nil record was refused and has its
// result.
func (p *producer) write(s *session, b *batch, records []*kgo.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.lost {
		return
	}
	for i, r := range records {
		if r == nil {
			continue
		}
		s.client.TryProduce(context.Background(), r, func(r *kgo.Record, err error) { p.answered(s, b, i, r, err) })
	}
}

// answered takes the result of one record.
func (p *producer) answered(s *session, b *batch, i int, r *kgo.Record, err error) {
	if err == nil {
		p.mu.Lock()
		s.strikes, s.refused = 0, 0
		p.mu.Unlock()
		b.Resolve(i, nil)
		return
	}
	result := classify(fmt.Sprintf("publish to topic %q", r.Topic), err)
	if waybill.IsPermanent(result) {
		b.Resolve(i, result)
		return
	}
	if outdated(err) {
		p.topics.forget(r.Topic) // it has changed: the next attempt finds out
	}
	b.Resolve(i, result)
	p.lose(s, connectionLost())
}

func (p *producer) close() {
	p.mu.Lock()
	p.closed = true
	if p.current != nil {
		p.loseLocked(p.current, waybill.UnavailableError(errClosed))
	}
	p.mu.Unlock()
	p.closing.Wait()
}

// watch counts the connections that end during a publish, because a message that ends each connection
// that it is sent on must not be repeated forever, and those that cannot be made: the library would
// retry until the deadline of the callers.
type watch struct {
	producer *producer
	session  *session
}

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (w *watch) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	if key != produceKey || e.Err() == nil {
		return
	}
	w.producer.mu.Lock()
	defer w.producer.mu.Unlock()
	if w.session.strikes++; w.session.strikes >= maxStrikes {
		w.producer.loseLocked(w.session, connectionLost())
	}
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (w *watch) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	w.producer.mu.Lock()
	defer w.producer.mu.Unlock()
	if err == nil {
		w.session.refused = 0
		return
	}
	a, _ := parseURL(w.producer.cfg.URL) // checked by withDefaults
	if w.session.refused++; w.session.refused >= maxStrikes*len(a.seeds) {
		w.producer.loseLocked(w.session, waybill.UnavailableError(fmt.Errorf("kafkabroker: connect: %w", err)))
	}
}
