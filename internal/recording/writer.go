package recording

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/relaycore"
)

const (
	// The sizes of a file that can be chosen, in bytes.
	MinSize     = 1 << 20
	MaxSize     = 1 << 30
	DefaultSize = 64 << 20

	// maxQueued is the limit of data waiting to be written, in bytes.
	maxQueued = 8 << 20
	// writeInterval is the least time between writes.
	writeInterval = 100 * time.Millisecond
	// pause is how long recording pauses after a failed write.
	pause = time.Minute
	// closePatience is how long Close waits for pending writes.
	closePatience = 2 * time.Second
)

// Config configures a [Writer].
type Config struct {
	Size  int64 // of the file, in bytes; 0 stands for DefaultSize
	Plain bool  // write keys and tenants in plain text
}

// file is the file of a Writer.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Close() error
}

// Writer records the run of a relay. The relay calls Begin, and then Before and After around each step of
// its core, one at a time: they write to memory only. A goroutine writes to the file. If it cannot, or does
// not keep up, recording pauses for a minute, and restarts with the state of the core.
type Writer struct {
	plain bool
	salt  [sha256.Size]byte
	half  int64

	// What follows belongs to the relay's steps.
	core     *relaycore.Core // nil while no relay runs
	began    time.Time
	run      uint64
	step     uint64 // the latest
	now      relaycore.Time
	on       bool // steps are recorded
	again    relaycore.Time
	coder    coder
	event    relaycore.Event // of the step that is being made
	digester digester
	batches  batches
	segment  segment
	used     int64 // bytes of the segment's half

	mu     sync.Mutex        // guards what follows
	names  map[string]string // tenants, by their hashes
	file   file
	taken  bool // by a relay
	queue  []*chunk
	queued int
	spare  []byte
	failed error // why recording pauses
	told   bool  // so was reported
	report func(error)

	wake, closing, closed chan struct{}
}

// chunk is a frame to be written, with the header of its segment if it is the first.
type chunk struct {
	segment segment
	offset  int64
	head    int // bytes before the frame
	data    []byte
}

// Open returns a Writer to a file, which it creates if it does not exist. The newer half of an
// existing recording is kept.
func Open(path string, cfg Config) (*Writer, error) {
	if cfg.Size == 0 {
		cfg.Size = DefaultSize
	}
	half := (cfg.Size - firstHalf) / 2
	f, latest, err := openFile(path, half)
	if err != nil {
		return nil, err
	}
	return newWriter(f, half, latest, cfg.Plain), nil
}

func newWriter(f file, half int64, latest uint64, plain bool) *Writer {
	w := &Writer{
		plain: plain, half: half, segment: segment{number: latest}, file: f, spare: make([]byte, 0, 64<<10),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), closed: make(chan struct{}),
	}
	_, _ = rand.Read(w.salt[:]) // never fails
	go w.write()
	return w
}

// Begin starts to record the steps of a core that has not made any. report is called with an error when
// recording pauses. It returns false if another relay is recorded.
func (w *Writer) Begin(core *relaycore.Core, began time.Time, report func(error)) bool {
	w.mu.Lock()
	taken := w.taken
	w.taken = true
	w.mu.Unlock()
	if taken {
		return false
	}
	var run [8]byte
	_, _ = rand.Read(run[:]) // never fails
	w.core, w.began, w.run = core, began, binary.LittleEndian.Uint64(run[:])
	w.step, w.now, w.again, w.batches = 0, 0, 0, newBatches()
	w.mu.Lock()
	w.report = report
	w.mu.Unlock()
	w.guard(w.restart)
	return true
}

// End ends the recording that Begin has started.
func (w *Writer) End() {
	w.core, w.on = nil, false
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = false
}

// Before records the event of a step that is about to be made.
func (w *Writer) Before(now relaycore.Time, e relaycore.Event) {
	if w == nil || !w.on {
		return
	}
	w.guard(func() error {
		c := &w.coder
		c.buf = c.buf[:0]
		kind, since := kindOf(e), now-w.now
		w.now, w.event = now, e
		c.uint(&kind)
		number(c, &since)
		c.event(kind, e, &w.batches)
		return c.err
	})
}

// After records the commands of the step, and when the next one is wanted.
func (w *Writer) After(now relaycore.Time, commands []relaycore.Command, next relaycore.Time) {
	if w == nil || w.core == nil {
		return
	}
	w.now = max(w.now, now)
	w.step++
	if w.on {
		w.guard(func() error { return w.record(commands, next) })
	}
	if !w.on && now >= w.again {
		w.guard(w.restart)
	}
}

// record writes the step that Before has started.
func (w *Writer) record(commands []relaycore.Command, next relaycore.Time) error {
	for _, cmd := range commands {
		if p, ok := cmd.(relaycore.Publish); ok {
			w.batches.add(p.Batch)
		}
	}
	c := &w.coder
	c.buf = binary.LittleEndian.AppendUint32(c.buf, w.digester.sum(commands, next, &w.batches))
	w.batches.done(w.event)
	w.event = nil
	switch {
	case w.used+int64(len(c.buf))+frameHeader > w.half:
		return w.restart() // the step is left out, which the number of the next one shows
	case !w.push(c.buf):
		w.rest()
	case w.used > w.half/8*7:
		return w.restart()
	}
	return nil
}

// rest pauses the recording.
func (w *Writer) rest() { w.on, w.again = false, w.now+pause }

// restart begins a segment with the state of the core.
func (w *Writer) restart() error {
	w.segment = newSegment(w.segment.number + 1)
	w.used, w.on = segmentHeader, true
	c := &w.coder
	c.restart()
	c.buf, c.err = c.buf[:0], nil
	kind := uint64(kindRestart)
	c.uint(&kind)
	c.restartPoint(&restartPoint{
		Layout: layout(), Version: version(), Run: w.run, Began: w.began.UnixNano(), Step: w.step, Now: w.now,
		Hashed: !w.plain, Core: w.core, Batches: &w.batches,
	})
	switch {
	case c.err != nil:
		return c.err
	case int64(len(c.buf))+segmentHeader+frameHeader > w.half:
		return fmt.Errorf("the relay's state has %d bytes, too many for a file of this size", len(c.buf))
	}
	w.mu.Lock()
	w.failed = nil
	w.mu.Unlock()
	if !w.push(c.buf) {
		w.rest()
	}
	return nil
}

// guard recovers from a fault of the recorder: it pauses the recording.
func (w *Writer) guard(do func() error) {
	err := loop.Protect(do)
	if err == nil {
		return
	}
	w.rest()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(err)
}

var errSlow = errors.New("the file does not keep up")

// push queues a record to be written. It returns false if recording has to pause.
func (w *Writer) push(record []byte) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return false
	}
	if w.queued+len(record) > maxQueued {
		w.fail(errSlow)
		return false
	}
	last := len(w.queue) - 1
	if last < 0 || w.queue[last].segment != w.segment {
		w.queue = append(w.queue, w.chunk())
		last++
		w.used += frameHeader
	}
	ch := w.queue[last]
	ch.data = append(ch.data, record...)
	w.queued += len(record)
	w.used += int64(len(record))
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return true
}

// chunk returns a chunk that follows the latest one of the segment.
func (w *Writer) chunk() *chunk {
	ch := &chunk{segment: w.segment, offset: w.segment.offset(w.half) + w.used, data: w.spare[:0]}
	w.spare = nil
	if w.used == segmentHeader {
		ch.data, ch.offset = w.segment.header(ch.data), ch.offset-segmentHeader
		ch.head = segmentHeader
	}
	ch.data = append(ch.data, make([]byte, frameHeader)...)
	return ch
}

// fail pauses recording and reports why, unless nothing was written since the last report. The caller
// holds the lock.
func (w *Writer) fail(err error) {
	if w.failed = err; w.told || w.report == nil {
		return
	}
	w.told = true
	go w.report(fmt.Errorf("nothing is recorded for %v: %w", pause, err))
}

// write writes chunks until the Writer is closed.
func (w *Writer) write() {
	defer close(w.closed)
	for closing := false; !closing; {
		select {
		case <-w.wake:
		case <-w.closing:
			closing = true
		}
		w.flush()
		if closing {
			break
		}
		select {
		case <-time.After(writeInterval):
		case <-w.closing:
		}
	}
	_ = w.file.Close()
}

// flush writes the queued chunks.
func (w *Writer) flush() {
	w.mu.Lock()
	list := w.queue
	w.queue = nil
	w.mu.Unlock()
	for _, ch := range list {
		if !w.save(ch) {
			return
		}
	}
}

// save writes a chunk, and reports whether to write those after it.
func (w *Writer) save(ch *chunk) bool {
	ch.segment.seal(ch.data[ch.head:])
	_, err := w.file.WriteAt(ch.data, ch.offset)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.queued -= len(ch.data) - ch.head - frameHeader; err != nil {
		w.queue, w.queued = nil, 0
		w.fail(err)
		return false
	}
	w.told = false
	if cap(ch.data) <= 1<<20 {
		w.spare = ch.data
	}
	return true
}

// Close writes pending data, for at most two seconds, and closes the file. No relay may be running.
func (w *Writer) Close() error {
	close(w.closing)
	select {
	case <-w.closed:
	case <-time.After(closePatience):
		return errSlow
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

const (
	tokenSize = 16
	maxNames  = 10_000 // tenants; above that they are forgotten until their next message
)

// Conceal replaces keys and tenants of messages by hashes, unless they are to be recorded in plain text. The
// same key has the same hash for as long as the Writer lives.
func (w *Writer) Conceal(messages []relaycore.Message) {
	if w == nil || w.plain {
		return
	}
	var tokens strings.Builder
	tokens.Grow(2 * tokenSize * len(messages))
	scratch := append(make([]byte, 0, 512), w.salt[:]...)
	var tenant, hashed string
	token := func(role byte, s string) string {
		if s == "" {
			return ""
		}
		scratch = append(append(scratch[:len(w.salt)], role), s...)
		sum := sha256.Sum256(scratch)
		at := tokens.Len()
		tokens.Write(sum[:tokenSize])
		return tokens.String()[at:]
	}
	for i := range messages {
		m := &messages[i]
		m.Key = token('k', m.Key)
		if m.Tenant != tenant {
			tenant, hashed = m.Tenant, token('t', m.Tenant)
			w.remember(hashed, tenant)
		}
		m.Tenant = hashed
	}
}

// remember keeps the name of a tenant: the core asks the store by its hash.
func (w *Writer) remember(hashed, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == nil || len(w.names) >= maxNames {
		w.names = make(map[string]string)
	}
	w.names[strings.Clone(hashed)] = name
}

// Reveal returns the tenants that Conceal has hashed. It returns false if one is no longer known.
func (w *Writer) Reveal(tenants []string) (names []string, known bool) {
	if w.plain {
		return tenants, true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range tenants {
		name, ok := w.names[t]
		if !ok {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

// version returns the version of the recording program.
var version = sync.OnceValue(func() string {
	text := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		text = info.Main.Version
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				text += " " + s.Value[:min(12, len(s.Value))]
			}
		}
	}
	return text + " " + runtime.GOARCH
})
