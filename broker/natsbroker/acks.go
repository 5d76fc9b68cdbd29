package natsbroker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// acks matches the confirmations of the stream with the batches that wait for them. Message i of batch n
// is answered on the subject prefix + n + "." + i.
type acks struct {
	prefix string
	stream string // the one that must confirm
	stored []byte // what its confirmations begin with
	sub    *nats.Subscription

	mu      sync.Mutex
	last    uint64
	batches map[uint64]*batch
	lost    int // batches that were lost and have not ended
}

func newAcks(nc *nats.Conn, stream string) (*acks, error) {
	a := &acks{prefix: nc.NewInbox() + ".", stream: stream, stored: storedPrefix(stream), batches: make(map[uint64]*batch)}
	var err error
	a.sub, err = nc.Subscribe(a.prefix+"*.*", a.receive)
	return a, err
}

func (a *acks) unsubscribe() { a.sub.Unsubscribe() }

// begin opens a batch, which end must close. It must not be written while the sender of a lost batch has
// yet to learn of the loss: it could overtake earlier messages of its key over a new connection.
func (a *acks) begin(msgs []contract.Outgoing) (b *batch, clear bool) {
	b = newBatch(msgs)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	b.number = a.last
	b.reply = a.prefix + strconv.FormatUint(b.number, 10) + "."
	a.batches[b.number] = b
	return b, a.lost == 0
}

func (a *acks) end(b *batch) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.batches, b.number)
	if b.lost {
		a.lost--
	}
}

// lose fails all open batches, including what they have not written yet.
func (a *acks) lose() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.batches {
		b.ResolveAll(connectionLost())
		if !b.lost {
			b.lost = true
			a.lost++
		}
	}
}

// receive takes one confirmation. One that nobody waits for is dropped.
func (a *acks) receive(m *nats.Msg) {
	batchText, indexText, _ := strings.Cut(strings.TrimPrefix(m.Subject, a.prefix), ".")
	number, err := strconv.ParseUint(batchText, 10, 64)
	if err != nil {
		return
	}
	a.mu.Lock()
	b := a.batches[number]
	a.mu.Unlock()
	index, err := strconv.Atoi(indexText)
	if b == nil || err != nil || index < 0 || index >= len(b.msgs) {
		return
	}
	b.Resolve(index, a.answer(m, b.msgs[index].Resent))
}

// pubAck is the body of a confirmation.
type pubAck struct {
	Error *struct {
		Code        int                 `json:"code"`
		ErrCode     jetstream.ErrorCode `json:"err_code"`
		Description string              `json:"description"`
	} `json:"error"`
	Stream    string `json:"stream"`
	Duplicate bool   `json:"duplicate"`
}

func storedPrefix(stream string) []byte { return fmt.Appendf(nil, `{"stream":%q,`, stream) }

// saysStored reports whether a confirmation says no more than that the stream has stored the message, as
// nearly all do: {"stream":"orders", "seq":42}. These need not be decoded.
func (a *acks) saysStored(data []byte) bool {
	return bytes.HasPrefix(data, a.stored) && !bytes.Contains(data, []byte(`"error"`)) && !bytes.Contains(data, []byte(`"duplicate"`))
}

// answer returns the result that a confirmation carries.
func (a *acks) answer(m *nats.Msg, resent bool) error {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return errNoResponders
	}
	if a.saysStored(m.Data) {
		return nil
	}
	var ack pubAck
	switch err := json.Unmarshal(m.Data, &ack); {
	case err != nil:
		return errors.New("natsbroker: confirmation is no JSON")
	case ack.Error != nil:
		err := fmt.Errorf("natsbroker: JetStream refuses: %s (%d)", ack.Error.Description, ack.Error.ErrCode)
		return refusal(err, ack.Error.Code, ack.Error.ErrCode)
	case ack.Stream != a.stream: // stored where none of our groups reads
		return waybill.PermanentError(waybill.ReasonUnroutable,
			fmt.Errorf("natsbroker: stream %q has the subject, want %q", ack.Stream, a.stream))
	case ack.Duplicate && !resent:
		return fmt.Errorf("natsbroker: stream %q: %w", ack.Stream, contract.ErrSwallowed)
	}
	return nil
}
