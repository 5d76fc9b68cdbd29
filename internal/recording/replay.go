package recording

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// maxHeld is how many messages a replayed core may hold: more than any relay does.
const maxHeld = 100_000

// Step is one step of a replay.
type Step struct {
	Number   uint64
	At       time.Time
	Event    relaycore.Event // nil for a restart
	Commands []relaycore.Command
	Settling []relaycore.Settlement // of a [relaycore.Settled] or [relaycore.SettleFailed]
	Restart  *Restart               // nil for a step

	batches *batches
	hashed  bool
}

// Restart is the point where a replay begins, or continues.
type Restart struct {
	NewRun bool // the relay began
	Missed bool // earlier steps are missing from the file
	Config relaycore.Config
}

// Totals are the totals of a replay.
type Totals struct {
	Steps, Restarts int
	From, To        time.Time
}

// ErrTruncated is the error of a file that ends in the middle of a frame.
var ErrTruncated = errors.New("the recording is cut off")

// DivergedError reports that the core decided differently than the relay had.
type DivergedError struct {
	Step     uint64
	Recorder string // the version of the relay
}

// Error implements error.
func (e *DivergedError) Error() string {
	return fmt.Sprintf("the core decides otherwise than the relay did in step %d (recorded by %q, this is %q)", e.Step, e.Recorder, version())
}

// Replay replays a recording through the core, and calls visit after each step until it returns an error.
// It fails with a [*DivergedError] if the core decides differently than the recorded relay.
func Replay(r io.ReaderAt, visit func(*Step) error) (Totals, error) {
	half, err := halfOf(r)
	if err != nil {
		return Totals{}, err
	}
	p := &player{visit: visit}
	list := segments(r, half)
	if len(list) == 0 {
		return Totals{}, fmt.Errorf("%w: nothing is in it", ErrTruncated)
	}
	var cut error
	for _, s := range list {
		switch err := p.segment(r, s, half); {
		case errors.Is(err, ErrTruncated):
			cut = err
		case err != nil:
			return p.totals, err
		}
	}
	if p.totals.Restarts == 0 && cut == nil {
		cut = fmt.Errorf("%w: nothing is in it", ErrTruncated)
	}
	return p.totals, cut
}

// player replays records.
type player struct {
	visit   func(*Step) error
	totals  Totals
	coder   coder
	core    *relaycore.Core // nil before the first restart of a segment
	point   restartPoint    // the latest
	batches *batches
	step    uint64
	now     relaycore.Time
	settles []relaycore.Settlement // being stored
	digest  digester
}

// segment replays a segment: the frames with its checksums.
func (p *player) segment(r io.ReaderAt, s segment, half int64) error {
	p.core = nil
	p.coder.restart()
	end := s.offset(half) + half
	for at := s.offset(half) + segmentHeader; at+frameHeader <= end; {
		var h [frameHeader]byte
		if n, err := r.ReadAt(h[:], at); n < len(h) {
			return unlessEOF(err)
		}
		length, sum, ours := s.sealed(h[:])
		if !ours || length == 0 || length > end-at-frameHeader {
			return nil // remains of an earlier segment
		}
		payload, err := io.ReadAll(io.NewSectionReader(r, at+frameHeader, length))
		if err != nil {
			return err
		}
		if int64(len(payload)) < length {
			return fmt.Errorf("%w: it ends after step %d, in the middle of a frame", ErrTruncated, p.step)
		}
		if s.checksum(payload) != sum {
			return fmt.Errorf("%w: what follows step %d was not written as a whole", ErrTruncated, p.step)
		}
		if err := p.records(payload); err != nil {
			return err
		}
		at += frameHeader + length
	}
	return nil
}

func unlessEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// records replays the records of a frame.
func (p *player) records(payload []byte) error {
	c := &p.coder
	c.buf, c.reading, c.err = payload, true, nil
	for len(c.buf) > 0 {
		if err := p.protected(); err != nil {
			return err
		}
	}
	return nil
}

// protected replays a record. Data that does not come from a relay may make a core panic.
func (p *player) protected() (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: after step %d it has what no relay records (%v)", errDamaged, p.step, fault)
		}
	}()
	return p.record()
}

func (p *player) record() error {
	c := &p.coder
	var kind uint64
	c.uint(&kind)
	if kind == kindRestart {
		return p.restart()
	}
	if p.core == nil {
		return fmt.Errorf("%w: a segment does not begin with a restart", errDamaged)
	}
	var since relaycore.Time
	number(c, &since)
	step := Step{batches: p.batches, hashed: p.point.Hashed}
	step.Event = c.event(kind, nil, p.batches)
	if len(c.buf) < 4 && c.err == nil {
		c.failf("step %d is cut off", p.step+1)
	}
	if c.err != nil {
		return c.err
	}
	want := binary.LittleEndian.Uint32(c.buf)
	c.buf = c.buf[4:]
	return p.make(&step, since, want)
}

// make makes a step, and compares the checksum of its commands with the recorded one.
func (p *player) make(step *Step, since relaycore.Time, want uint32) error {
	p.step++
	p.now += since
	step.Number, step.At = p.step, time.Unix(0, p.point.Began).Add(p.now)
	step.Commands = p.core.Step(p.now, step.Event)
	switch step.Event.(type) {
	case relaycore.Settled, relaycore.SettleFailed:
		step.Settling, p.settles = p.settles, nil
	}
	for _, cmd := range step.Commands {
		switch cmd := cmd.(type) {
		case relaycore.Publish:
			p.batches.add(cmd.Batch)
		case relaycore.Settle:
			p.settles = cmd.Settlements
		}
	}
	if got := p.digest.sum(step.Commands, p.core.Next(), p.batches); got != want {
		return &DivergedError{Step: p.step, Recorder: p.point.Version}
	}
	if held := p.core.Stats().Held; held > maxHeld {
		return fmt.Errorf("%w: %d messages are held after step %d", errDamaged, held, p.step)
	}
	p.totals.Steps++
	err := p.show(step)
	p.batches.done(step.Event)
	return err
}

// restart reads the state from which replaying continues.
func (p *player) restart() error {
	var point restartPoint
	if p.coder.restartPoint(&point); p.coder.err != nil {
		return p.coder.err
	}
	known := p.totals.Restarts > 0 && p.point.Run == point.Run && p.step == point.Step
	if !known {
		p.settles = nil
	}
	p.point, p.core, p.batches, p.step, p.now = point, point.Core, point.Batches, point.Step, point.Now
	p.totals.Restarts++
	return p.show(&Step{
		Number: p.step, At: time.Unix(0, point.Began).Add(p.now), batches: p.batches, hashed: point.Hashed,
		Restart: &Restart{NewRun: point.Step == 0, Missed: !known && point.Step > 0, Config: p.core.Config()},
	})
}

func (p *player) show(step *Step) error {
	if p.totals.From.IsZero() {
		p.totals.From = step.At
	}
	p.totals.To = step.At
	return p.visit(step)
}
