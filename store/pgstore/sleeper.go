package pgstore

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/wakeup"
)

const (
	// An announcement is renewed long before it expires; it expires so that writers stop notifying
	// relays that were killed.
	announcementTTL     = time.Minute
	announcementRenewal = announcementTTL / 2

	// There are too many notifications if rushCount come within rushWindow: each keeps other
	// commits of the database waiting. They are requested again when no more than rushCount
	// messages were found within calmWindow, which is a lower rate.
	rushCount  = 20
	rushWindow = 50 * time.Millisecond
	calmWindow = 100 * time.Millisecond

	// Relays whose own lanes are quiet can't see that others' are not. So the pause before
	// the next announcement doubles while announcements are withdrawn soon.
	minPatience = 100 * time.Millisecond
	maxPatience = 3 * time.Second

	// The waits between claims: without notifications, and for the end of transactions that were
	// open at the announcement. They grow while nothing is found.
	minWait      = time.Millisecond
	maxRushWait  = 10 * time.Millisecond
	maxEarlyWait = time.Second

	forever = time.Hour // any wait ends with the relay's poll
)

// sleeper decides how the relays of a store object wait for messages.
//
//	deaf ──connected──▶ awake ──announced──▶ announced ──20 notifications in 50 ms──▶ awake
//
// Deaf relays learn of other transactions at the next poll. Announced ones sleep until they are
// notified. Awake ones claim every few milliseconds, and announce when it is calm.
type sleeper struct {
	signals *wakeup.Signaller

	mu          sync.Mutex
	hearing     bool            // the listener is connected
	announcedAt time.Time       // zero if writers are not asked to notify
	early       map[string]bool // transactions that have enqueued before they were asked, still open
	withdrawn   int             // how often the announcement was withdrawn
	withdrawnAt time.Time
	patience    time.Duration // pause after a withdrawal
	notified    rate          // notifications
	claimed     rate          // messages
	claimedAt   time.Time     // when the last was found
	err         error         // why notifications are not received, to be reported
	reported    bool          // it was handled already
}

func newSleeper(signals *wakeup.Signaller) *sleeper {
	return &sleeper{signals: signals, patience: minPatience}
}

// step is what a relay that has found nothing does next.
type step struct {
	announce bool          // announce, and claim again
	wait     time.Duration // else wait for this long, or until there is a signal
	look     bool          // and then see which early writers are left
}

func (s *sleeper) next(now time.Time) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Sub(s.announcedAt)
	switch {
	case !s.hearing:
		return step{wait: forever}
	case s.announcedAt.IsZero() && !s.calm(now):
		return step{wait: min(max(now.Sub(s.claimedAt)/2, minWait), maxRushWait)}
	case s.announcedAt.IsZero() || age >= announcementRenewal:
		return step{announce: true}
	case len(s.early) > 0:
		return step{wait: min(max(age/10, minWait), maxEarlyWait), look: true}
	}
	return step{wait: announcementRenewal - age}
}

// calm reports whether the rate of notifications would be low again.
func (s *sleeper) calm(now time.Time) bool {
	return now.Sub(s.withdrawnAt) >= s.patience && !s.claimed.within(calmWindow, now)
}

// found records that a claim has found n messages.
func (s *sleeper) found(n int, now time.Time) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimedAt = now
	s.claimed.add(n, now)
}

func (s *sleeper) withdrawals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.withdrawn
}

// announced records that writers were asked to notify, after the given number of withdrawals: if
// there was one since, it may have come later than the announcement.
func (s *sleeper) announced(at time.Time, withdrawals int, open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.hearing || s.withdrawn != withdrawals {
		return
	}
	s.announcedAt = at
	s.early = make(map[string]bool, len(open))
	for _, w := range open {
		s.early[w] = true
	}
}

// stillOpen records which transactions are open now. Messages of those that have ended are visible;
// all relays of the store object must look for them.
func (s *sleeper) stillOpen(open []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := make(map[string]bool)
	for _, w := range open {
		if s.early[w] {
			left[w] = true
		}
	}
	if len(left) < len(s.early) {
		s.signals.Signal()
	}
	s.early = left
}

// connected records that notifications are received from now on.
func (s *sleeper) connected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hearing, s.reported, s.err = true, false, nil
	s.signals.Signal()
}

// lost records that notifications are not received, and why. That is reported once until they are
// received again.
func (s *sleeper) lost(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hearing, s.announcedAt, s.early = false, time.Time{}, nil
	if !s.reported {
		s.reported, s.err = true, err
		s.signals.Signal()
	}
}

func (s *sleeper) takeError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// wake records a notification of a writer, and reports whether there are too many.
func (s *sleeper) wake(now time.Time) (rush bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signals.Signal()
	s.notified.add(1, now)
	if rush = s.notified.within(rushWindow, now); rush {
		s.notified = rate{}
	}
	return rush
}

// withdraw records that writers no longer notify.
func (s *sleeper) withdraw(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.withdrawnAt) < 2*maxPatience {
		s.patience = min(2*s.patience, maxPatience)
	} else {
		s.patience = minPatience
	}
	s.withdrawn++
	s.withdrawnAt, s.claimedAt = now, now
	s.announcedAt, s.early = time.Time{}, nil
	s.signals.Signal()
}

// rate remembers when the last rushCount events came.
type rate struct {
	at   [rushCount]time.Time
	next int // the oldest
}

func (r *rate) add(n int, now time.Time) {
	for range min(n, rushCount) {
		r.at[r.next] = now
		r.next = (r.next + 1) % rushCount
	}
}

// within reports whether they came within d.
func (r *rate) within(d time.Duration, now time.Time) bool { return now.Sub(r.at[r.next]) < d }
