package recording

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// memory is a file in memory.
type memory struct {
	mu   sync.Mutex
	data []byte
	err  error         // of writes
	hold chan struct{} // writes wait for it
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if m.hold != nil {
		<-m.hold
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return 0, m.err
	}
	if end := int(off) + len(p); end > len(m.data) {
		m.data = append(m.data, make([]byte, end-len(m.data))...)
	}
	return copy(m.data[off:], p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if off >= int64(len(m.data)) {
		return 0, io.EOF
	}
	n := copy(p, m.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Close() error { return nil }

func (m *memory) fails(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

// record returns a Writer to a file in memory with halves of a size.
func record(m *memory, half int64, plain bool) *Writer {
	m.data = preamble(half)
	return newWriter(m, half, 0, plain)
}

// driver is a relay without a store and a broker: what answers commands is chance.
type driver struct {
	rng      *rand.Rand
	core     *relaycore.Core
	now      relaycore.Time
	open     []relaycore.Command // that are not answered
	position int64
	epoch    int64
	steps    uint64
	w        *Writer
	tamper   func(step uint64, commands []relaycore.Command) []relaycore.Command
}

func newDriver(seed uint64, w *Writer) *driver {
	rng := rand.New(rand.NewPCG(seed, 0))
	cfg := relaycore.Config{
		Dests: []relaycore.Dest{{Name: "a", Late: rng.IntN(2) == 0}}, BatchSize: 1 + rng.IntN(20), Parallel: 1 + rng.IntN(4),
		Strict: rng.IntN(3) == 0, Retry: waybill.RetryPolicy{MaxRetries: 3, BaseDelay: time.Second, MaxDelay: time.Minute},
		TopicOrder: map[string]relaycore.Order{"t1": relaycore.Park, "t2": relaycore.Skip}, MaxParked: 50, MaxParkedKeys: 20,
		LeaseTTL: 8 * time.Second, RenewInterval: 2 * time.Second, PublishTimeout: 4 * time.Second, PollInterval: 5 * time.Second,
		CallTimeout: 8 * time.Second, Seed: rng.Uint64(), Ahead: rng.IntN(2) == 0,
	}
	if rng.IntN(2) == 0 {
		cfg.Dests = append(cfg.Dests, relaycore.Dest{Name: "b", Rate: 100})
		cfg.Followers = []relaycore.Dest{{Name: "c"}}
	}
	d := &driver{rng: rng, core: relaycore.New(cfg), epoch: 1, w: w}
	if w != nil && !w.Begin(d.core, time.Unix(1_800_000_000, 0), func(error) {}) {
		panic("another core is recorded")
	}
	return d
}

func (d *driver) step(e relaycore.Event) {
	d.steps++
	d.w.Before(d.now, e)
	commands := d.core.Step(d.now, e)
	for _, cmd := range commands {
		switch cmd.(type) {
		case relaycore.Report, relaycore.EndAwait, relaycore.Cut:
		default:
			d.open = append(d.open, cmd)
		}
	}
	next := d.core.Next()
	if d.tamper != nil {
		commands = d.tamper(d.steps, commands)
	}
	d.w.After(d.now, commands, next)
}

// run makes steps.
func (d *driver) run(steps int) {
	for range steps {
		d.now += time.Duration(d.rng.ExpFloat64() * float64(20*time.Millisecond))
		if len(d.open) == 0 || d.rng.IntN(4) == 0 {
			if next := d.core.Next(); len(d.open) == 0 && next < d.now+time.Hour {
				d.now = max(d.now, next)
			}
			d.step(relaycore.Tick{})
			continue
		}
		at := d.rng.IntN(len(d.open))
		cmd := d.open[at]
		d.open = slices.Delete(d.open, at, at+1)
		d.step(d.answer(cmd))
	}
}

var errSecret = waybill.UnavailableError(errors.New("password swordfish"))

func (d *driver) answer(cmd relaycore.Command) relaycore.Event {
	failed := d.rng.IntN(20) == 0
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		if failed {
			return relaycore.LeaseFailed{Lost: d.rng.IntN(2) == 0, Err: errSecret}
		}
		return d.leased()
	case relaycore.Release:
		if failed {
			return relaycore.Released{Err: errSecret}
		}
		return relaycore.Released{Count: d.rng.IntN(3)}
	case relaycore.Count:
		return relaycore.Counted{Keys: d.rng.IntN(22), Messages: d.rng.IntN(40), Took: time.Millisecond}
	case relaycore.Claim:
		if failed {
			return relaycore.ClaimFailed{Err: errSecret}
		}
		return d.claimed(cmd)
	case relaycore.ClaimAhead:
		if failed {
			return relaycore.ClaimedAhead{Reached: cmd.Above, Err: errSecret}
		}
		found := d.claimed(relaycore.Claim{Lanes: cmd.Lanes, Limit: cmd.Limit}).(relaycore.Claimed)
		return relaycore.ClaimedAhead{Messages: found.Messages, Reached: d.position}
	case relaycore.Publish:
		return d.answered(cmd.Batch)
	case relaycore.Settle:
		if failed {
			return relaycore.SettleFailed{Refused: d.rng.IntN(2) == 0, Err: errSecret}
		}
		e := relaycore.Settled{Took: time.Millisecond}
		if d.rng.IntN(20) == 0 {
			e.Lost = []int{d.rng.IntN(4)}
		}
		return e
	}
	return relaycore.Woken{}
}

func (d *driver) leased() relaycore.Event {
	if d.rng.IntN(10) == 0 {
		d.epoch++
	}
	e := relaycore.Leased{Share: 1 + d.rng.IntN(4), Total: 4}
	for n := range 1 + d.rng.IntN(4) {
		e.Lanes = append(e.Lanes, relaycore.Lane{Number: n, Epoch: d.epoch})
	}
	return e
}

func (d *driver) claimed(cmd relaycore.Claim) relaycore.Event {
	var e relaycore.Claimed
	names := []string{"a", "b", "c"}[:1+2*min(1, len(d.core.Config().Followers))]
	for range d.rng.IntN(min(cmd.Limit, 40) + 1) {
		d.position++
		m := relaycore.Message{
			Position: d.position, Lane: cmd.Lanes[d.rng.IntN(len(cmd.Lanes))], Topic: fmt.Sprint("t", d.rng.IntN(4)),
			ID: fmt.Sprintf("0198c0de-0000-7000-8000-%012x", d.position), Tenant: fmt.Sprint("tenant-", d.rng.IntN(3)), Size: 700,
			Waiting: d.rng.IntN(5) == 0, Blocked: d.rng.IntN(20) == 0, Attempts: d.rng.IntN(2), Routes: names[:1],
		}
		if d.rng.IntN(4) > 0 {
			m.Key = fmt.Sprint("customer-", d.rng.IntN(10))
		}
		d.oddity(&m, names)
		if m.Waiting {
			m.Dest, m.Routes = names[d.rng.IntN(len(names))], nil
		}
		e.Messages = append(e.Messages, m)
	}
	e.Full = len(e.Messages) == cmd.Limit
	d.w.Conceal(e.Messages)
	return e
}

// oddity makes some messages such as there are few.
func (d *driver) oddity(m *relaycore.Message, names []string) {
	switch d.rng.IntN(30) {
	case 0:
		m.Malformed = errSecret
	case 1:
		m.Expired = true
	case 2:
		m.ExpiresIn = time.Second
	case 3:
		m.DelayFor = time.Minute
	case 4:
		m.Routes = names
	case 5:
		m.RouteErr = errors.New("no such customer")
	case 6:
		m.Life, m.ID = 1, "order 7"
	case 7:
		m.Routes = nil
	}
}

func (d *driver) answered(b *relaycore.Batch) relaycore.Event {
	e := relaycore.Answered{Batch: b, Window: 2 * time.Minute}
	if d.rng.IntN(2) == 0 {
		return e
	}
	e.Results = make([]relaycore.Result, len(b.Messages))
	lost := d.rng.IntN(5) == 0
	for i := range e.Results {
		r := &e.Results[i]
		switch n := d.rng.IntN(8); {
		case lost && n < 4:
			*r = relaycore.Result{Err: errSecret, Kind: waybill.Unavailable, Lost: true, Unsure: n < 2}
		case n == 4:
			*r = relaycore.Result{Err: errSecret, Kind: waybill.Permanent, Reason: waybill.ReasonUnroutable}
		case n == 5:
			*r = relaycore.Result{Err: errSecret, Kind: waybill.Transient, Swallowed: d.rng.IntN(2) == 0}
		case n == 6:
			*r = relaycore.Result{Err: errSecret, Kind: waybill.Unavailable, After: time.Second}
		case b.Dest == "a" && len(d.core.Config().Followers) > 0:
			r.Followers = []string{"c"}
		}
	}
	return e
}

// replayed replays a file and returns the last step.
func replayed(t *testing.T, r io.ReaderAt) (totals Totals, last uint64) {
	t.Helper()
	totals, err := Replay(r, func(s *Step) error {
		last = s.Number
		return nil
	})
	if err != nil {
		t.Fatalf("Replay() = %v after step %d", err, last)
	}
	return totals, last
}
