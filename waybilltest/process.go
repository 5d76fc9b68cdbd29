package waybilltest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/memstore"
)

// process is the life of the consumers until a crash: a connection to the broker, and one to
// the store, that end with it.
type process struct {
	conn *membroker.Broker
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// start begins a process with all consumers.
func (k *Kit) start() *process {
	p := &process{conn: k.Broker.Connect()}
	p.ctx, p.stop = context.WithCancel(context.Background())
	k.faults.crashWith(func() {
		p.stop()
		p.conn.Close() // always nil
	})
	for _, c := range k.consumers {
		k.must(p.consume(k, c))
	}
	return p
}

// consume runs a consumer until the process ends.
func (p *process) consume(k *Kit, c consumes) error {
	one, err := consumer.New(p.conn, c.from, contract.Inbox[*memstore.Tx](&mortal{k.Store, k}), c.handler, c.cfg)
	if err != nil {
		return err
	}
	p.wg.Go(func() { k.note(one.Run(p.ctx)) })
	return nil
}

// end waits until all consumers have ended.
func (p *process) end() {
	p.stop()
	p.wg.Wait()
	p.conn.Close() // always nil
}

// mortal is the inbox of a process: once the process has crashed nothing reaches the store.
type mortal struct {
	store *memstore.Store
	kit   *Kit
}

// alive returns an error if the process has crashed.
func (b *mortal) alive() error {
	if b.kit.faults.crashed() {
		return waybill.UnavailableError(errCrashed)
	}
	return nil
}

// ProcessOnce reports a delivery to the faults, and counts its acknowledgement as a step.
func (b *mortal) ProcessOnce(ctx context.Context, rec inbox.Record, fn func(ctx context.Context, tx *memstore.Tx) error) (inbox.Outcome, error) {
	if err := b.alive(); err != nil {
		return inbox.Processed, err
	}
	defer b.kit.handled.Add(1)
	defer b.kit.faults.begin(fmt.Sprintf("%s handles %s", rec.Consumer, rec.MessageID))()
	outcome, err := b.store.ProcessOnce(ctx, rec, fn)
	if err == nil {
		err = b.kit.faults.Step("acknowledge")
	}
	if dead := b.alive(); dead != nil {
		return outcome, dead
	}
	return outcome, err
}

func (b *mortal) FailedAttempts(ctx context.Context, key inbox.Key) (contract.Attempts, error) {
	if err := b.alive(); err != nil {
		return contract.Attempts{}, err
	}
	return b.store.FailedAttempts(ctx, key)
}

func (b *mortal) SaveAttempt(ctx context.Context, key inbox.Key, a contract.FailedAttempt) error {
	if err := b.alive(); err != nil {
		return err
	}
	return b.store.SaveAttempt(ctx, key, a)
}

func (b *mortal) SaveStarts(ctx context.Context, key inbox.Key, starts int) error {
	if err := b.alive(); err != nil {
		return err
	}
	return b.store.SaveStarts(ctx, key, starts)
}

func (b *mortal) BuryMessage(ctx context.Context, l inbox.Letter) (bool, error) {
	if err := b.alive(); err != nil {
		return false, err
	}
	return b.store.BuryMessage(ctx, l)
}

func (b *mortal) TakeRequeued(ctx context.Context, name string, lease time.Duration) (contract.Requeued, bool, error) {
	if err := b.alive(); err != nil {
		return contract.Requeued{}, false, err
	}
	return b.store.TakeRequeued(ctx, name, lease)
}

// AwaitRequeued wakes a consumer for requeued dead letters at once, so that it need not poll often.
func (b *mortal) AwaitRequeued(ctx context.Context, name string) { b.store.AwaitRequeued(ctx, name) }

// RunRequeued reports a delivery to the faults, too.
func (b *mortal) RunRequeued(ctx context.Context, r contract.Requeued, node string, fn func(ctx context.Context, tx *memstore.Tx) error) (bool, error) {
	if err := b.alive(); err != nil {
		return false, err
	}
	defer b.kit.handled.Add(1)
	defer b.kit.faults.begin(fmt.Sprintf("%s handles %s, requeued", r.Key.Consumer, r.Message.ID))()
	return b.store.RunRequeued(ctx, r, node, fn)
}
