package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/cloudevents"
)

// ReceiverConfig configures a [Receiver].
type ReceiverConfig struct {
	// Secrets are those that senders sign with: the current one, and while it is being replaced
	// the new one too. 1 to 16. Required.
	Secrets []Secret

	// Tolerance is how far the timestamp of a request may be from the receiver's time. 1 s to 1
	// h. Optional; the default is [DefaultTolerance].
	Tolerance time.Duration

	// MaxBody is the most that a body may have, in bytes; more is answered with 413. Optional;
	// the default is 1 MiB.
	MaxBody int64

	// MaxRequests is how many requests may be in flight, their bodies in memory; more are
	// answered with 503, except that a body that is still being read makes room for a newer
	// request. Optional; the default is 256.
	MaxRequests int

	// SettleGrace is how long after the end of its subscription a request waits for the handler
	// of its message, before it is answered with 503. Optional; the default is 10 s.
	SettleGrace time.Duration
}

const (
	defaultMaxBody     = 1 << 20
	defaultMaxRequests = 256
	defaultSettleGrace = 10 * time.Second

	// roomWait is how long a request waits for the place of one that was interrupted.
	roomWait = time.Second

	// awayDelay is how long a sender is asked to wait when no subscriber runs.
	awayDelay = time.Second
)

func (c ReceiverConfig) withDefaults() (ReceiverConfig, error) {
	if c.Tolerance == 0 {
		c.Tolerance = DefaultTolerance
	}
	if c.MaxBody == 0 {
		c.MaxBody = defaultMaxBody
	}
	if c.MaxRequests == 0 {
		c.MaxRequests = defaultMaxRequests
	}
	if c.SettleGrace == 0 {
		c.SettleGrace = defaultSettleGrace
	}
	switch {
	case c.Tolerance < time.Second || c.Tolerance > time.Hour:
		return c, invalidf("ReceiverConfig.Tolerance", "is %v, the range is 1s to 1h0m0s", c.Tolerance)
	case c.MaxBody < 1 || c.MaxBody > 1<<30:
		return c, invalidf("ReceiverConfig.MaxBody", "is %d, the range is 1 to %d", c.MaxBody, 1<<30)
	case c.MaxRequests < 1:
		return c, invalidf("ReceiverConfig.MaxRequests", "is %d; it must be positive", c.MaxRequests)
	case c.SettleGrace < 0:
		return c, invalidf("ReceiverConfig.SettleGrace", "is %v; it must not be negative", c.SettleGrace)
	}
	return c, nil
}

// Receiver receives webhooks over HTTP. It is an http.Handler, safe for concurrent use.
type Receiver struct {
	cfg   ReceiverConfig
	keys  [][]byte
	slots chan struct{} // one for each request in flight

	readings readings

	mu     sync.Mutex
	queues map[string]*queue // of the subscriptions that run

	closed    chan struct{}
	closeOnce sync.Once
}

// NewReceiver returns a receiver. The error is an [*waybill.InvalidError] that names what is
// missing or wrong.
func NewReceiver(cfg ReceiverConfig) (*Receiver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(cfg.Secrets)
	if err != nil {
		return nil, err
	}
	return &Receiver{
		cfg: cfg, keys: keys, slots: make(chan struct{}, cfg.MaxRequests),
		queues: make(map[string]*queue), closed: make(chan struct{}),
	}, nil
}

// Close answers every request in flight, and later ones, with 503, and ends running Subscribes
// with an unavailable error. Senders retry later. Call it before Shutdown of the server, and
// after the consumers have ended. It returns nil.
func (r *Receiver) Close() error {
	r.closeOnce.Do(func() { close(r.closed) })
	return nil
}

func (r *Receiver) ended() bool {
	select {
	case <-r.closed:
		return true
	default:
		return false
	}
}

// answer is the response to a request. It reveals nothing of what was received.
type answer struct {
	code  int
	after time.Duration // with 503
}

var (
	accepted = answer{code: http.StatusNoContent}
	away     = answer{code: http.StatusServiceUnavailable, after: awayDelay}
)

// ServeHTTP receives one webhook.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	a := r.receive(w, req)
	if a.code == http.StatusServiceUnavailable {
		seconds := (a.after + time.Second - 1) / time.Second
		w.Header().Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if a.code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.WriteHeader(a.code)
}

func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) answer {
	if req.Method != http.MethodPost {
		return answer{code: http.StatusMethodNotAllowed}
	}
	if _, _, _, err := signed(req.Header); err != nil {
		return answer{code: http.StatusUnauthorized} // whatever the body is
	}
	if !r.admit(req.Context()) {
		return away
	}
	defer func() { <-r.slots }()
	body, err := r.readings.read(w, req, r.cfg.MaxBody)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return answer{code: http.StatusRequestEntityTooLarge}
	case errors.Is(err, os.ErrDeadlineExceeded): // interrupted
		return away
	case err != nil:
		return answer{code: http.StatusBadRequest}
	case verify(req.Header, body, time.Now(), r.cfg.Tolerance, r.keys) != nil || !authentic(req.Header):
		return answer{code: http.StatusUnauthorized}
	case cloudevents.Structured(req.Header.Get(contentType)) && !isStructuredJSON(req.Header.Get(contentType)):
		return answer{code: http.StatusUnsupportedMediaType}
	}
	m, err := decode(req.Header, body)
	if m.Address() == "" {
		return answer{code: http.StatusBadRequest} // nobody could ever receive it
	}
	return r.deliver(req.Context(), webhook{m, err, req.Header.Get(attemptHeader) != firstAttempt})
}

// admit takes a place, and returns false if none is free.
func (r *Receiver) admit(ctx context.Context) bool {
	if r.ended() {
		return false
	}
	select {
	case r.slots <- struct{}{}:
		return true
	default:
	}
	if !r.readings.interrupt() {
		return false
	}
	wait := time.NewTimer(roomWait)
	defer wait.Stop()
	select {
	case r.slots <- struct{}{}:
		return true
	case <-wait.C:
	case <-ctx.Done():
	case <-r.closed:
	}
	return false
}

// deliver hands a message to each group that it is for, and waits for all of them. A group that
// has acknowledged it recognises it when it is redelivered because of another.
func (r *Receiver) deliver(ctx context.Context, w webhook) answer {
	queues := r.queuesFor(w.message)
	if len(queues) == 0 {
		return away
	}
	answers := make([]answer, len(queues))
	var groups sync.WaitGroup
	for i, q := range queues {
		groups.Go(func() { answers[i] = q.pass(ctx, w.clone()) })
	}
	groups.Wait()
	worst := answers[0]
	for _, a := range answers[1:] {
		if worst == accepted || a != accepted && a.after > worst.after {
			worst = a
		}
	}
	return worst
}

// queuesFor returns the queues of the groups that a message is for. Of those that share a
// destination it returns one.
func (r *Receiver) queuesFor(m *waybill.Message) []*queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*queue
	for _, name := range slices.Sorted(maps.Keys(r.queues)) {
		q := r.queues[name]
		switch {
		case m.To != "" && m.To == q.subscription.To:
			return []*queue{q}
		case m.To == "" && slices.Contains(q.subscription.Topics, m.Topic):
			found = append(found, q)
		}
	}
	return found
}

// join makes sure that a subscription has a queue, for as long as somebody has joined it.
func (r *Receiver) join(s consumer.Subscription) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := fmt.Sprintf("%q", append([]string{s.Group, s.To}, slices.Sorted(slices.Values(s.Topics))...))
	q := r.queues[name]
	if q == nil {
		q = newQueue(r, name, s)
		r.queues[name] = q
	}
	q.members++
	return q
}

func (r *Receiver) leave(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.members--; q.members == 0 {
		delete(r.queues, q.name)
		close(q.deserted)
	}
}

// isStructuredJSON reports whether a content type marks a single event in JSON.
func isStructuredJSON(contentType string) bool {
	media, _, _ := strings.Cut(strings.ToLower(contentType), ";")
	return strings.TrimSpace(media) == "application/cloudevents+json"
}
