package recording

import (
	"fmt"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// nowhere is a file that takes everything.
type nowhere struct{}

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (nowhere) Close() error                           { return nil }

// BenchmarkDrain: the steps of a relay that sends 1,250 claimed messages in batches of 100 which are all
// accepted, recorded and not. It counts the nanoseconds for each message.
func BenchmarkDrain(b *testing.B) {
	for _, recorded := range []bool{false, true} {
		b.Run(fmt.Sprint("recorded=", recorded), func(b *testing.B) {
			b.ReportAllocs()
			d := &drain{core: relaycore.New(relaycore.Config{
				Dests: []relaycore.Dest{{}}, BatchSize: 100, Parallel: 4, LeaseTTL: 8 * time.Second, RenewInterval: 2 * time.Second,
				PublishTimeout: 4 * time.Second, PollInterval: 5 * time.Second, CallTimeout: 8 * time.Second,
				Retry: waybill.RetryPolicy{MaxRetries: 5, BaseDelay: time.Second, MaxDelay: time.Minute}, MaxParked: 1, MaxParkedKeys: 1,
			})}
			if recorded {
				d.w = newWriter(nowhere{}, DefaultSize/2, 0, false)
				d.w.Begin(d.core, time.Now(), func(err error) { b.Error(err) })
				defer d.w.Close()
			}
			for b.Loop() {
				d.claim(1250)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1250, "ns/message")
		})
	}
}

type drain struct {
	core     *relaycore.Core
	w        *Writer
	now      relaycore.Time
	position int64
	todo     []relaycore.Command
}

func (d *drain) step(e relaycore.Event) {
	d.now += 100 * time.Microsecond
	d.w.Before(d.now, e)
	commands := d.core.Step(d.now, e)
	d.todo = append(d.todo, commands...)
	d.w.After(d.now, commands, d.core.Next())
}

// claim goes on until n messages were claimed and sent.
func (d *drain) claim(n int) {
	claimed := false
	for !claimed || len(d.todo) > 0 {
		if len(d.todo) == 0 {
			d.now = max(d.now, d.core.Next())
			d.step(relaycore.Tick{})
			continue
		}
		cmd := d.todo[0]
		d.todo = d.todo[1:]
		switch cmd := cmd.(type) {
		case relaycore.Renew:
			d.step(relaycore.Leased{Lanes: []relaycore.Lane{{Number: 0, Epoch: 1}}, Share: 1, Total: 1})
		case relaycore.Release:
			d.step(relaycore.Released{})
		case relaycore.Claim:
			messages := make([]relaycore.Message, 0, n)
			for range min(n, cmd.Limit) {
				if claimed {
					break
				}
				d.position++
				messages = append(messages, relaycore.Message{
					Position: d.position, Lane: cmd.Lanes[0], Topic: "orders", Key: keys[d.position%int64(len(keys))], Tenant: "default",
					ID: ids[d.position%int64(len(ids))], Size: 1200, Routes: routes,
				})
			}
			claimed = true
			d.w.Conceal(messages)
			d.step(relaycore.Claimed{Messages: messages})
		case relaycore.Publish:
			d.step(relaycore.Answered{Batch: cmd.Batch})
		case relaycore.Settle:
			d.step(relaycore.Settled{Took: time.Millisecond})
		case relaycore.Await:
			d.step(relaycore.Woken{})
		}
	}
}

var (
	routes    = []string{""}
	keys, ids = func() (keys, ids []string) {
		for n := range 10_000 {
			keys, ids = append(keys, fmt.Sprint("k", n)), append(ids, waybill.NewID())
		}
		return keys, ids
	}()
)
