package pgstore

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/wakeup"
)

// hearing returns a sleeper whose listener is connected, and the time.
func hearing() (*sleeper, time.Time) {
	s := newSleeper(new(wakeup.Signaller))
	s.connected()
	return s, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
}

func announce(s *sleeper, now time.Time, open ...string) {
	s.announced(now, s.withdrawals(), open)
}

func TestSleeper_Deaf(t *testing.T) {
	t.Parallel()
	s := newSleeper(new(wakeup.Signaller))
	now := time.Now()
	announce(s, now) // too late: the connection is gone
	if got := s.next(now); got != (step{wait: forever}) {
		t.Errorf("next() = %+v without a connection, want to wait for the poll", got)
	}
}

func TestSleeper_Announces(t *testing.T) {
	t.Parallel()
	s, now := hearing()
	if got := s.next(now); got != (step{announce: true}) {
		t.Fatalf("next() = %+v, want to announce first", got)
	}
	announce(s, now)
	if got := s.next(now.Add(time.Second)); got != (step{wait: announcementRenewal - time.Second}) {
		t.Errorf("next() = %+v, want to sleep until the renewal", got)
	}
	if got := s.next(now.Add(announcementRenewal)); got != (step{announce: true}) {
		t.Errorf("next() = %+v, want to renew", got)
	}
	s.lost(nil)
	s.connected()
	if got := s.next(now); got != (step{announce: true}) {
		t.Errorf("next() = %+v after the connection was lost, want to announce again", got)
	}
}

// TestSleeper_EarlyWriters: those that were not asked to notify are waited for in steps.
func TestSleeper_EarlyWriters(t *testing.T) {
	t.Parallel()
	s, now := hearing()
	signals, _ := s.signals.Join("r1")
	announce(s, now, "3/1", "4/1")
	for age, want := range map[time.Duration]time.Duration{
		0: time.Millisecond, 200 * time.Millisecond: 20 * time.Millisecond, 20 * time.Second: time.Second,
	} {
		if got := s.next(now.Add(age)); got != (step{wait: want, look: true}) {
			t.Errorf("next() = %+v after %v, want to look in %v", got, age, want)
		}
	}
	s.stillOpen([]string{"4/1", "5/9", "3/1"})
	if len(signals) > 0 {
		t.Error("a signal though no early writer has ended")
	}
	s.stillOpen([]string{"4/1", "5/9"})
	if len(signals) == 0 {
		t.Error("no signal for the other relays when an early writer has ended")
	}
	s.stillOpen([]string{"5/9"}) // a later one, which notifies
	if got := s.next(now); got.look {
		t.Errorf("next() = %+v with no early writer left, want to sleep", got)
	}
}

// rush makes a sleeper hear notifications until it asks for a withdrawal, and returns how many.
func rush(s *sleeper, now time.Time, every time.Duration, limit int) (time.Time, int) {
	for i := 1; i <= limit; i++ {
		now = now.Add(every)
		if s.wake(now) {
			return now, i
		}
	}
	return now, 0
}

func TestSleeper_Rush(t *testing.T) {
	t.Parallel()
	s, now := hearing()
	announce(s, now)
	now, n := rush(s, now, 10*time.Millisecond, 1000)
	if n != 0 {
		t.Errorf("100 notifications a second are too many after %d", n)
	}
	now, n = rush(s, now.Add(time.Second), time.Millisecond, 1000)
	if n != rushCount {
		t.Errorf("1000 notifications a second are too many after %d, want %d", n, rushCount)
	}
	if _, n = rush(s, now, time.Millisecond, rushCount-1); n != 0 {
		t.Error("a second withdrawal for the same notifications")
	}
	s.withdraw(now)
	if got := s.next(now); got != (step{wait: minWait}) {
		t.Errorf("next() = %+v after a withdrawal, want to claim again in %v", got, minWait)
	}
	if got := s.next(now.Add(minPatience - 1)); got != (step{wait: maxRushWait}) {
		t.Errorf("next() = %+v, want to claim again in %v", got, maxRushWait)
	}
	now = now.Add(minPatience)
	s.found(rushCount, now)
	if got := s.next(now); got != (step{wait: minWait}) {
		t.Errorf("next() = %+v while many messages are found, want no announcement", got)
	}
	if got := s.next(now.Add(calmWindow)); got != (step{announce: true}) {
		t.Errorf("next() = %+v when it is calm, want to announce", got)
	}
}

// TestSleeper_QuietLanes: a relay that finds nothing, while the lanes of others are busy,
// announces ever more rarely.
func TestSleeper_QuietLanes(t *testing.T) {
	t.Parallel()
	s, now := hearing()
	withdrawals := 0
	for end := now.Add(time.Minute); now.Before(end); now = now.Add(maxRushWait) {
		if s.next(now).announce {
			announce(s, now)
			s.withdraw(now)
			withdrawals++
		}
	}
	if withdrawals > 30 {
		t.Errorf("%d announcements in a minute of traffic, want few", withdrawals)
	}
	now = now.Add(2*maxPatience + time.Second)
	announce(s, now)
	s.withdraw(now)
	if got := s.next(now.Add(minPatience)); got != (step{announce: true}) {
		t.Errorf("next() = %+v, want short pauses again after a long calm", got)
	}
}

// TestSleeper_WithdrawnMeanwhile: another relay's withdrawal may have come after the
// announcement, though its notification was heard before.
func TestSleeper_WithdrawnMeanwhile(t *testing.T) {
	t.Parallel()
	s, now := hearing()
	withdrawals := s.withdrawals()
	s.withdraw(now)
	s.announced(now, withdrawals, nil)
	if got := s.next(now.Add(minPatience)); got != (step{announce: true}) {
		t.Errorf("next() = %+v, want to announce again", got)
	}
}
