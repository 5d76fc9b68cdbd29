package natsbroker

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/internal/handover"
	"github.com/waybill-go/waybill/internal/loop"
)

const (
	// pullExpires is how long the server keeps a request for messages; pullHeartbeat is how often it
	// confirms that it still does.
	pullExpires   = 15 * time.Second
	pullHeartbeat = 5 * time.Second

	// pullSilence is how long a request may be without any answer before it counts as lost.
	pullSilence = 3 * pullHeartbeat

	// sweepExpires is how long the server keeps a request that makes it forget the dead ones.
	sweepExpires = 50 * time.Millisecond
	// probePause is how long a stop waits before it asks again whether everything was sent.
	probePause = 10 * time.Millisecond
)

// puller receives the messages of one durable consumer. What it holds and what it has requested is never
// more than its share together. It requests as many messages as there is room for when nothing is requested
// any longer, and ahead of that when half of the share is free, so that messages are in flight while others
// are being handled. While it is idle there is one open request.
//
// A message does not say which request it belongs to, so only their sum is known. It is certain each time
// it comes to zero. So that a request which was lost unnoticed does not count forever, nothing is requested
// ahead once a request could have expired, until the sum is zero.
type puller struct {
	run     *run
	durable durable
	share   int // most messages to hold
	inbox   string
	subject string // where requests go
	sub     *nats.Subscription
	drained chan struct{} // closed when nothing more can arrive
	arrived chan struct{} // has a value if something has arrived since it was last checked

	stopOnce sync.Once

	mu       sync.Mutex
	stopped  bool
	sent     bool      // the server has sent everything it had
	broken   bool      // the request was refused; check the consumer before the next one
	held     int       // received and not settled
	asked    int       // requested and not received
	certain  time.Time // when asked was last zero
	requests uint64    // number of the last request
	valid    uint64    // number of the first request that was not abandoned
	heard    time.Time // when a request was last answered
	failures int       // refusals and silences since then
	retryAt  time.Time // when to repair the consumer
}

func newPuller(r *run, d durable, share int) (*puller, error) {
	p := &puller{
		run:     r,
		durable: d,
		share:   share,
		valid:   1,
		inbox:   r.broker.nc.NewInbox() + ".",
		subject: "$JS.API.CONSUMER.MSG.NEXT." + r.broker.cfg.Stream + "." + d.name,
		drained: make(chan struct{}),
		arrived: make(chan struct{}, 1),
	}
	var err error
	if p.sub, err = r.broker.nc.Subscribe(p.inbox+"*.*", p.receive); err != nil {
		return nil, classify("receive messages", err)
	}
	p.sub.SetClosedHandler(func(string) { close(p.drained) })
	return p, nil
}

func (p *puller) broker() *Broker { return p.run.broker }
func (p *puller) nc() *nats.Conn  { return p.run.broker.nc }

// ask makes a request if one is due. The lock is held.
func (p *puller) ask() {
	room := p.share - p.held - p.asked
	if p.stopped || p.broken || room <= 0 {
		return
	}
	now := time.Now()
	if p.asked > 0 && !p.ahead(room, now) {
		return
	}
	first := p.asked == 0
	if !p.request(pullRequest{Batch: room, Expires: pullExpires, Heartbeat: pullHeartbeat}) {
		return // there is no connection; reconnected will ask
	}
	if first {
		p.certain = now
	}
	p.heard = now
}

// request makes a request, and reports whether it could be sent. The lock is held.
func (p *puller) request(r pullRequest) bool {
	p.requests++
	reply := p.inbox + strconv.FormatUint(p.requests, 10) + "." + strconv.Itoa(r.Batch)
	if p.nc().PublishRequest(p.subject, reply, r.body()) != nil {
		return false
	}
	p.asked += r.Batch
	return true
}

// ahead reports whether to ask while something is already requested. The lock is held.
func (p *puller) ahead(room int, now time.Time) bool {
	return 2*room >= p.share && now.Sub(p.certain) < pullExpires
}

// pullRequest is a request for messages. With NoWait and no expiry the server answers at once if it has
// none.
type pullRequest struct {
	Batch     int           `json:"batch"`
	Expires   time.Duration `json:"expires,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
}

func (r pullRequest) body() []byte {
	body, _ := json.Marshal(r)
	return body
}

// receive handles one message, or the server's answer to a request.
func (p *puller) receive(m *nats.Msg) {
	defer handover.Signal(p.arrived)
	if isDelivery(m) {
		p.take(m)
		return
	}
	number, batch := p.requestOf(m.Subject)
	p.mu.Lock()
	defer p.mu.Unlock()
	if number >= p.valid {
		p.status(m.Header, batch)
	}
}

// requestOf returns the number of the request that is answered on subject, and for how many
// messages it was; zeros if there is none.
func (p *puller) requestOf(subject string) (number uint64, batch int) {
	first, second, _ := strings.Cut(strings.TrimPrefix(subject, p.inbox), ".")
	number, _ = strconv.ParseUint(first, 10, 64)
	batch, _ = strconv.Atoi(second)
	return number, batch
}

// status processes a status of the server about an open request for batch messages. The lock is held.
func (p *puller) status(h nats.Header, batch int) {
	p.heard = time.Now()
	code, description := h.Get("Status"), h.Get("Description")
	switch {
	case code == "100": // heartbeat
		p.failures = 0
	case code == "404", code == "408" && description == "Requests Pending": // to a probe
		p.asked = max(p.asked-batch, 0)
		p.sent = code == "404"
	case code == "408", code == "409" && strings.EqualFold(description, "Batch Completed"):
		left, _ := strconv.Atoi(h.Get("Nats-Pending-Messages"))
		p.failures = 0
		p.asked = max(p.asked-left, 0)
		p.ask()
	case strings.EqualFold(description, "Exceeded MaxWaiting"): // others have too many requests open; ours stay
		p.asked = max(p.asked-batch, 0)
		p.fail()
	default: // all are refused: no such consumer, no leader, shutting down
		p.giveUp()
		p.fail()
	}
}

// giveUp counts all requests as ended. The lock is held.
func (p *puller) giveUp() {
	p.asked = 0
	p.valid = p.requests + 1
}

// fail stops asking until the consumer is repaired, the first time at once. The lock is held.
func (p *puller) fail() {
	p.broken = true
	p.retryAt = time.Now()
	if p.failures > 0 {
		p.retryAt = p.retryAt.Add(brokerkit.Backoff(100*time.Millisecond, p.failures))
	}
	p.failures++
	p.run.kick()
}

// take accepts a delivery. After stop it is for the run to give back.
func (p *puller) take(m *nats.Msg) {
	p.mu.Lock()
	p.held++
	p.asked = max(p.asked-1, 0)
	p.heard = time.Now()
	p.failures = 0
	p.ask()
	p.mu.Unlock()
	d := &delivery{puller: p, msg: m}
	deliveries, sequence := ackFields(m.Reply)
	d.sequence, d.redelivered = sequence, deliveries != 1
	p.broker().open.Add(d)
	p.run.queue.Push(d)
}

// settled makes room for another delivery.
func (p *puller) settled(d *delivery) {
	p.broker().open.Remove(d)
	if d.fate.Handed() {
		p.run.queue.Free()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held--
	p.ask()
}

// reconnected asks again: requests do not survive their connection.
func (p *puller) reconnected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.giveUp()
	p.ask()
}

// needsRepair reports whether the consumer needs to be repaired now. It is called periodically, and asks
// again where a request is missing.
func (p *puller) needsRepair(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked > 0 && now.Sub(p.heard) > pullSilence {
		p.giveUp()
		p.fail()
	}
	p.ask()
	return p.broken && !p.stopped && !now.Before(p.retryAt)
}

// repaired asks again after the consumer was seen to exist.
func (p *puller) repaired() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = false
	p.ask()
}

// postpone delays the next repair after an attempt that failed.
func (p *puller) postpone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail()
}

// stop ends receiving and waits, for closeTimeout at most for each of its steps, until messages in flight
// have arrived. It may be repeated.
func (p *puller) stop() {
	p.stopOnce.Do(func() {
		p.mu.Lock()
		p.stopped = true
		p.mu.Unlock()
		p.awaitSent()
		if !p.nc().IsConnected() || p.sub.Drain() != nil {
			p.sub.Unsubscribe()
			return
		}
		select {
		case <-p.drained:
			p.sweep()
		case <-time.After(closeTimeout):
			p.sub.Unsubscribe()
		}
	})
}

// awaitSent waits until everything requested has arrived, or the server has nothing more to send: it says
// so in the queue by which messages leave it, so after them. Messages that it sends to nobody are
// redelivered late, or in another order.
func (p *puller) awaitSent() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for p.probe() {
		select {
		case <-p.arrived:
		case <-ctx.Done():
			return
		}
		if p.sending() {
			loop.Sleep(ctx, probePause)
		}
	}
}

// probe asks whether the server has sent everything, unless that is known. It may get a message, which
// serves as well.
func (p *puller) probe() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unsent() && p.request(pullRequest{Batch: 1, NoWait: true})
}

func (p *puller) sending() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.unsent()
}

// unsent reports whether the server may still have to send something. The lock is held.
func (p *puller) unsent() bool { return p.asked > 0 && !p.sent && !p.broken && p.nc().IsConnected() }

// sweep makes the server forget the requests that nobody listens to any longer, and fetches what it has
// sent to them since it was asked, and what it still has to redeliver: that is earlier in the stream than
// what it has never delivered, but it would come before what is given back now. As long as a dead request
// is the only one, servers before 2.10 do not redeliver what is given back to them: they deliver, as new,
// the message before the next, and redeliver after AckWait only.
func (p *puller) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	for {
		m := p.fetch(ctx, pullRequest{Batch: 1, Expires: sweepExpires})
		if m == nil { // a slow server may have something nevertheless
			m = p.fetch(ctx, pullRequest{Batch: 1, NoWait: true})
		}
		if m == nil {
			return
		}
		p.take(m)
		if deliveries, _ := ackFields(m.Reply); deliveries == 1 && !p.awaits() {
			return
		}
	}
}

// fetch returns the answer to a request for one message, nil if that is not a message. It has its own
// subscription: the one that all requests of a connection share does not know which request a message
// answers, because messages come under their own subjects, and drops it when there are several.
func (p *puller) fetch(ctx context.Context, r pullRequest) *nats.Msg {
	inbox := p.nc().NewInbox()
	sub, err := p.nc().SubscribeSync(inbox)
	if err != nil {
		return nil
	}
	defer sub.Unsubscribe()
	if p.nc().PublishRequest(p.subject, inbox, r.body()) != nil {
		return nil
	}
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil || !isDelivery(m) {
		return nil
	}
	return m
}

// awaits reports whether something is requested that has not arrived.
func (p *puller) awaits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked > 0
}

const ackPrefix = "$JS.ACK."

func isDelivery(m *nats.Msg) bool { return strings.HasPrefix(m.Reply, ackPrefix) }

// ackFields returns how often a message was delivered and its position in the stream, zeros if the
// subject on which it is acknowledged does not tell. That is
//
//	$JS.ACK.stream.consumer.delivered.position.…
//
// with nine tokens, or with domain.account before the stream and eleven or more.
//
// Source: NATS architecture decision 15.
func ackFields(subject string) (deliveries, sequence uint64) {
	skip := 2 // after the prefix
	switch n := strings.Count(subject, ".") + 1; {
	case n >= 11:
		skip = 4
	case n != 9:
		return 0, 0
	}
	rest := subject[len(ackPrefix):]
	for range skip {
		_, rest, _ = strings.Cut(rest, ".")
	}
	first, rest, _ := strings.Cut(rest, ".")
	second, _, _ := strings.Cut(rest, ".")
	deliveries, _ = strconv.ParseUint(first, 10, 64)
	sequence, _ = strconv.ParseUint(second, 10, 64)
	return deliveries, sequence
}
