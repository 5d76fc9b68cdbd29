package push

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// archive is a small one, on the clock of its bubble.
type archive struct {
	mu   sync.Mutex
	rows []archived
	err  error
	gate chan struct{} // closed when it may be read; nil for at once
}

type archived struct {
	at time.Time
	m  *waybill.Message
}

func (a *archive) add(msgs ...*waybill.Message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range msgs {
		a.rows = append(a.rows, archived{time.Now(), m})
	}
}

func (a *archive) PublishedAt(_ context.Context, id string, within time.Duration) (time.Time, error) {
	if a.gate != nil {
		<-a.gate
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.rows {
		if r.m.ID == id && time.Since(r.at) <= within {
			return r.at, a.err
		}
	}
	return time.Time{}, errors.Join(a.err, waybill.ErrNotFound)
}

func (a *archive) PublishedSince(_ context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.rows {
		if r.at.Before(since) || !slices.Contains(topics, r.m.Address()) {
			continue
		}
		if err := visit(r.m); err != nil {
			return err
		}
	}
	return a.err
}

// TestSlowClient (AS-72): a client with a full buffer is disconnected, and what it got before has no gap; when it connects
// again it catches up from its last event. The publisher said yes all the while, and never that
// anything is durable: TestSend_IsBestEffort.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a, Buffer: 3})
		slow, quick := connect(t, h, Connection{}), connect(t, h, Connection{})
		publish := func(ids ...string) {
			for _, id := range ids {
				a.add(message(id))
				pushAll(t, h, message(id))
				synctest.Wait()
			}
		}
		publish("1", "2")
		slow.want("+ 1 2")
		slow.block()
		publish("3", "4", "5", "6") // one is with Send, three are in the buffer
		if got := h.Stats(); got.Slow != 0 {
			t.Errorf("a client whose buffer is just full was disconnected: %+v", got)
		}
		publish("7")
		slow.ended(ErrSlow)
		if got := h.Stats(); got.Slow != 1 || got.Clients != 1 {
			t.Errorf("stats = %+v, want one slow client and one connected", got)
		}
		quick.want("+ 1 2 3 4 5 6 7")
		time.Sleep(3 * time.Second)
		publish("8")

		again := connect(t, h, Connection{LastEventID: "2"})
		again.want("+ 1 2 3 4 5 6 7 8") // 1 and 2 are within the overlap
		publish("9")
		again.want("+ 1 2 3 4 5 6 7 8 9")
		again.leave()
		quick.leave()
	})
}

func TestCatchUp_BeginsAtTheOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a})
		for _, id := range []string{"1", "2", "3"} {
			a.add(message(id))
			time.Sleep(overlap)
		}
		a.add(message("4"))
		c := connect(t, h, Connection{LastEventID: "3"})
		c.want("+ 2 3 4")
		c.leave()
	})
}

// What a client may not see live it does not see when it catches up.
func TestCatchUp_Rights(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a})
		stock, acme := message("stock"), message("acme")
		stock.Topic, acme.Tenant = "stock", "acme"
		a.add(message("1"), message("2", HeaderUsers, "ann"), message("3", HeaderUsers, "bob"),
			message("4", HeaderGroups, "admins"), stock, acme)
		c := connect(t, h, Connection{Grant: Grant{User: "bob"}, LastEventID: "1"})
		c.want("+ 1 3")
		c.leave()
	})
}

func TestCatchUp_Reset(t *testing.T) {
	t.Parallel()
	old := time.Now().Add(-2 * time.Hour)
	for _, tt := range []struct {
		name string
		cfg  Config
		last string
		fill func(a *archive)
		want string
	}{
		{"unknown id", Config{}, "other", func(*archive) {}, "!unknown"},
		{"too old", Config{CatchUpAge: time.Minute}, "1", func(a *archive) { pass(time.Minute + 1) }, "!unknown"},
		{"just young enough", Config{CatchUpAge: time.Minute}, "1", func(a *archive) { pass(time.Minute) }, "1"},
		{"id of no length that is stored", Config{}, strings.Repeat("x", waybill.MaxIDLen+1), func(*archive) {}, "!unknown"},
		{"too many", Config{CatchUpLimit: 2}, "1", func(a *archive) { a.add(message("2"), message("3")) }, "!too_much"},
		{"just not too many", Config{CatchUpLimit: 2}, "1", func(a *archive) { a.add(message("2")) }, "1 2"},
		{"too many bytes", Config{}, "1", func(a *archive) {
			for i := range catchUpBytes/waybill.MaxPayloadLen + 1 {
				m := message(fmt.Sprint("big", i))
				m.Payload = make([]byte, waybill.MaxPayloadLen)
				a.add(m)
			}
		}, "!too_much"},
		{"the archive is down", Config{}, "1", func(a *archive) { a.err = errors.New("down") }, "!unavailable"},
		{"a place in time", Config{}, "", func(a *archive) { pass(time.Hour) }, "1"},
		{"a place in time that is too old", Config{}, timeID(old), func(*archive) {}, "!unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &archive{}
				tt.cfg.Archive = a
				h := newHub(t, tt.cfg)
				last := tt.last
				if last == "" {
					last = timeID(time.Now())
				} else if last == timeID(old) {
					last = timeID(time.Now().Add(-time.Hour - time.Millisecond))
				}
				a.add(message("1"))
				tt.fill(a)
				c := connect(t, h, Connection{LastEventID: last})
				c.want("+ " + tt.want)
				a.mu.Lock()
				a.err = nil
				a.mu.Unlock()
				m := message("live")
				pushAll(t, h, m)
				c.want("+ " + tt.want + " live")
				c.leave()
				if got, want := h.Stats().Resets, strings.Count(tt.want, "!"); got != want {
					t.Errorf("%d resets are counted, want %d", got, want)
				}
			})
		})
	}
}

func TestCatchUp_WithoutArchive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHub(t, Config{})
		c := connect(t, h, Connection{LastEventID: "1"})
		c.want("+ !unknown")
		c.leave()
	})
}

// A message may be pushed before its relay has settled it: then the archive does not have it when
// a client looks that connects in between, and the client gets it later, once.
func TestCatchUp_SettledLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a})
		a.add(message("1"))
		pushAll(t, h, message("2"))
		c := connect(t, h, Connection{LastEventID: "1"})
		c.want("+ 1")
		a.add(message("2"))
		pushAll(t, h, message("3"))
		a.add(message("3"))
		c.want("+ 1 3")
		time.Sleep(settleWait)
		c.want("+ 1 3 2")
		pushAll(t, h, message("3")) // pushed again: a duplicate like any other by now
		c.want("+ 1 3 2 3")
		c.leave()
	})
}

// What is pushed while the client reads the archive reaches it once.
func TestCatchUp_PushedMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{gate: make(chan struct{})}
		h := newHub(t, Config{Archive: a})
		a.add(message("1"), message("2"))
		c := connect(t, h, Connection{LastEventID: "1"})
		pushAll(t, h, message("2"), message("3"))
		c.want("+")
		close(a.gate)
		c.want("+ 1 2 3")
		c.leave()
	})
}

// A client that is cut off before its first message catches up too: by the time of its first
// connection, or of the reset.
func TestCatchUp_FromAPlaceInTime(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{"connected": "", "reset": "unknown"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				a := &archive{}
				h := newHub(t, Config{Archive: a})
				a.add(message("long ago"))
				time.Sleep(2 * overlapOfTime)
				c := connect(t, h, Connection{LastEventID: last})
				c.leave()
				id := ""
				for _, e := range c.events {
					if e.ID != "" {
						id = e.ID
					}
				}
				time.Sleep(10 * time.Minute)
				a.add(message("missed"))
				again := connect(t, h, Connection{LastEventID: id})
				again.want("+ missed")
				if e := again.events[0]; e.ID != "" {
					t.Errorf("the first event moves the client's place to %q before it has caught up", e.ID)
				}
				again.leave()
			})
		})
	}
}

// Few clients read the archive at a time, however many come.
func TestCatchUp_FewAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &countingArchive{}
		h := newHub(t, Config{Archive: a})
		var clients []*client
		for range 5 * archiveReaders {
			clients = append(clients, connect(t, h, Connection{LastEventID: "1"}))
		}
		time.Sleep(time.Minute)
		for _, c := range clients {
			c.want("+ 1")
			c.leave()
		}
		if a.most != archiveReaders {
			t.Errorf("%d clients read the archive at a time, want %d", a.most, archiveReaders)
		}
	})
}

// strict is an archive that refuses what is no text, as databases do.
type strict struct{ *archive }

func (strict) PublishedAt(context.Context, string, time.Duration) (time.Time, error) {
	return time.Time{}, errors.New("invalid byte sequence")
}

// TestServeHTTP_NoText: an id that no store can keep is unknown, and asks no store.
func TestServeHTTP_NoText(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, id := range []string{"\x00", "a\x00", "\xed\xa0\x80", "\xff"} {
			h := newHub(t, Config{Archive: strict{&archive{}}})
			c := connect(t, h, Connection{LastEventID: id})
			c.want("+ !unknown")
			c.leave()
		}
	})
}

// TestCatchUp_Streams: a client that takes nothing holds one page of what it has missed, and one that takes
// everything gets all of it once and in order.
func TestCatchUp_Streams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a})
		var want []string
		for i := range 100 {
			m := message(fmt.Sprint(i))
			m.Payload = make([]byte, 64<<10)
			a.add(m)
			want = append(want, m.ID)
			pass(time.Millisecond)
		}
		s := &session{Connection: Connection{Grant: Grant{Topics: []string{"orders"}}}, hub: h, missed: backlog{}}
		p := page{first: true}
		if err := s.read(t.Context(), a, &p); err != nil || len(p.events)*64<<10 > pageBytes || !p.more {
			t.Errorf("the first page has %d events of 64 KiB, more %v, %v", len(p.events), p.more, err)
		}
		c := connect(t, h, Connection{LastEventID: "0"})
		c.want("+ " + strings.Join(want, " "))
		c.leave()
	})
}

// TestCatchUp_AccountTakesTurns: few clients of one account catch up at a time, and they hold up no
// other's.
func TestCatchUp_AccountTakesTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := &archive{}
		h := newHub(t, Config{Archive: a, MaxCatchUps: 2})
		a.add(message("1"))
		catchUp := func(account string) *client {
			return connect(t, h, Connection{LastEventID: "1", Grant: Grant{Account: account, Topics: []string{"orders"}}})
		}
		enter := func() func() {
			leave, err := h.catching.enter(t.Context(), "one", 2)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		first, second := enter(), enter()
		waits, other := catchUp("one"), catchUp("other")
		waits.want("+")
		other.want("+ 1")
		first()
		waits.want("+ 1")
		third := enter()
		refused := catchUp("one")
		pass(catchUpWait)
		refused.want("+ !unavailable")
		second()
		third()
		for _, c := range []*client{waits, other, refused} {
			c.leave()
		}
		if len(h.catching.of) != 0 {
			t.Errorf("%d accounts are still known", len(h.catching.of))
		}
	})
}

// countingArchive holds one message, and each of its readers for a second.
type countingArchive struct {
	mu        sync.Mutex
	now, most int
}

func (a *countingArchive) PublishedAt(context.Context, string, time.Duration) (time.Time, error) {
	a.mu.Lock()
	a.now++
	a.most = max(a.most, a.now)
	a.mu.Unlock()
	pass(time.Second)
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
	return time.Now(), nil
}

func (a *countingArchive) PublishedSince(_ context.Context, _ []string, _ time.Time, visit func(*waybill.Message) error) error {
	return visit(message("1"))
}

// pass lets time pass in the bubble of its caller.
func pass(d time.Duration) { <-time.After(d) }
