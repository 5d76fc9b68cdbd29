package conformance

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/memstore"
)

// expiries is an observer that keeps the ids of messages that were sent again too late.
type expiries struct {
	observe.Observer
	mu  sync.Mutex
	ids []string
}

func (o *expiries) Observe(_ context.Context, e observe.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Op == observe.OpDedupExpired {
		o.ids = append(o.ids, e.IDs...)
	}
}

func (o *expiries) list() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.ids)
}

// natsOutage is a relay whose connection to a stream can be cut, and a look past it.
type natsOutage struct {
	*testing.T
	cfg    natsbroker.Config
	js     jetstream.JetStream
	proxy  *faultproxy.Proxy
	relay  *relay.Relay
	told   *expiries
	writer *outbox.Writer[*memstore.Tx]
}

func newNATSOutage(t *testing.T, url string, window time.Duration) *natsOutage {
	o := &natsOutage{T: t, cfg: natsConfig(t, url), told: &expiries{Observer: observe.Observers()}}
	o.cfg.DuplicateWindow = window
	nc, js := natsClient(t, url)
	t.Cleanup(nc.Close)
	o.js = js
	through := o.cfg
	through.URL, o.proxy = behindProxy(t, url)
	store := memstore.New()
	var err error
	if o.writer, err = outbox.NewWriter(store, outbox.Config{Source: "test"}); err != nil {
		t.Fatal(err)
	}
	patient := relay.Config{Observer: o.told, PublishTimeout: time.Minute, LeaseTTL: 2 * time.Minute} // it repeats nothing by itself
	if o.relay, err = relay.New(store, natsOpen(t, through).Publisher(), patient); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- o.relay.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return o
}

// loseConfirm has the relay publish a message, which the stream stores, and cuts the connection
// before the relay receives the confirm. It returns the id.
func (o *natsOutage) loseConfirm() string {
	o.Helper()
	m := waybill.Message{ID: waybill.NewID(), Topic: "t"}
	o.proxy.StallReplies(true)
	if _, err := o.writer.InTx(o.Context(), func(_ context.Context, _ *memstore.Tx, rec *outbox.Recorder) error {
		rec.Record(m)
		return nil
	}); err != nil {
		o.Fatal(err)
	}
	natsEventually(o.T, "the message to be stored", func() bool { return o.stored() == 1 })
	o.proxy.Refuse(true)
	o.proxy.Cut()
	o.proxy.StallReplies(false)
	return m.ID
}

// forgotten waits until the stream has forgotten the id of what was stored before.
func (o *natsOutage) forgotten() {
	o.Helper()
	o.probe()
	natsEventually(o.T, "the window to pass", func() bool { return !o.probe() })
}

// probe publishes under one id and reports whether the stream still knew it.
func (o *natsOutage) probe() (duplicate bool) {
	o.Helper()
	ack, err := o.js.Publish(o.Context(), o.cfg.SubjectPrefix+"probe", nil, jetstream.WithMsgID("probe"))
	if err != nil {
		o.Fatal(err)
	}
	return ack.Duplicate
}

// reconnect lets the relay reach the server again and waits until the message is accepted.
func (o *natsOutage) reconnect() {
	o.Helper()
	o.proxy.Refuse(false)
	natsEventually(o.T, "the relay to publish", func() bool { return o.relay.Status().Published == 1 })
}

// stored returns how many copies of the message the stream holds.
func (o *natsOutage) stored() uint64 {
	o.Helper()
	s, err := o.js.Stream(o.Context(), o.cfg.Stream)
	if err != nil {
		o.Fatal(err)
	}
	info, err := s.Info(o.Context(), jetstream.WithSubjectFilter(o.cfg.SubjectPrefix+"t"))
	if err != nil {
		o.Fatal(err)
	}
	return info.State.Subjects[o.cfg.SubjectPrefix+"t"]
}

// TestNATSBroker_DedupExpired cuts a relay off before it learns that a message was stored. Within
// the stream's window its second copy is dropped and nothing is said; later there are two, and
// the relay tells of it.
func TestNATSBroker_DedupExpired(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"server": natsURL(t), "embedded server": natsEmbedded(t)} {
		t.Run(name+", within the window", func(t *testing.T) {
			t.Parallel()
			o := newNATSOutage(t, url, 2*time.Minute)
			o.loseConfirm()
			o.reconnect()
			if told := o.told.list(); o.stored() != 1 || len(told) != 0 {
				t.Errorf("%d copies, told of %q, want one and nothing told", o.stored(), told)
			}
		})
		t.Run(name+", after the window", func(t *testing.T) {
			t.Parallel()
			o := newNATSOutage(t, url, 300*time.Millisecond)
			id := o.loseConfirm()
			o.forgotten()
			o.reconnect()
			natsEventually(t, "the relay to tell", func() bool { return len(o.told.list()) > 0 })
			if told := o.told.list(); o.stored() != 2 || !slices.Equal(told, []string{id}) {
				t.Errorf("%d copies, told of %q, want two and told of %s once", o.stored(), told, id)
			}
		})
	}
}

// TestNATSBroker_AtomicBatchAndDuplicates shows why the publisher does not use the server's atomic
// batches: one message that the stream has already refuses all others of its batch, while of
// messages with confirmations of their own the rest is accepted.
func TestNATSBroker_AtomicBatchAndDuplicates(t *testing.T) {
	t.Parallel()
	cfg := natsConfig(t, natsEmbedded(t))
	b := natsOpen(t, cfg)
	nc, js := natsClient(t, cfg.URL)
	defer nc.Close()
	stream := natsStream(t, cfg)
	stream.AllowAtomicPublish = true
	if _, err := js.UpdateStream(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
	msgs := natsMessages("t", 1, 3)
	natsMustSend(t, b, msgs[1:2])
	known, err := js.Stream(t.Context(), cfg.Stream)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := known.GetMsg(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	refused := natsAtomic(t, nc, stored.Subject, "first", stored.Header.Get("Nats-Msg-Id"), "third")
	if !strings.Contains(refused, `"err_code":10201`) || natsLastSequence(t, js, cfg) != 1 {
		t.Errorf("the batch is answered %s, the stream holds %d messages, want it refused and 1", refused, natsLastSequence(t, js, cfg))
	}
	if err := errors.Join(natsSend(t, b, patience, true, msgs)()...); err != nil || natsLastSequence(t, js, cfg) != 3 {
		t.Errorf("Send() = %v, the stream holds %d messages, want all accepted and 3", err, natsLastSequence(t, js, cfg))
	}
}

// natsAtomic publishes an atomic batch of messages with the given ids, and returns the answer.
func natsAtomic(t *testing.T, nc *nats.Conn, subject string, ids ...string) string {
	t.Helper()
	for i, id := range ids[:len(ids)-1] {
		if err := nc.PublishMsg(natsBatched(subject, i+1, id)); err != nil {
			t.Fatal(err)
		}
	}
	last := natsBatched(subject, len(ids), ids[len(ids)-1])
	last.Header["Nats-Batch-Commit"] = []string{"1"}
	answer, err := nc.RequestMsg(last, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.Data)
}

func natsBatched(subject string, number int, id string) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{
		"Nats-Batch-Id": {"batch"}, "Nats-Batch-Sequence": {strconv.Itoa(number)}, "Nats-Msg-Id": {id},
	}}
}

func natsLastSequence(t *testing.T, js jetstream.JetStream, cfg natsbroker.Config) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), cfg.Stream)
	if err != nil {
		t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}
