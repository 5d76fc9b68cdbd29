package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// fakeSource is a source in memory, as small as the relay's own tests need it. Messages wait
// in the order of their positions, and their due times decide alone.
type fakeSource struct {
	mu       sync.Mutex
	rows     map[int64]*fakeRow
	position int64
	dead     []string
	commits  chan struct{}
	claims   int
	lanes    []contract.Lane
	share    int
	refuse   error  // of settlements
	refuseID string // of a message that no settlement may hold
	settles  int

	refuseRelease error

	scheduled []fakeRow
	looks     int // for scheduled messages
}

type fakeRow struct {
	contract.Claim
	due time.Time
}

const fakeLanes = 4

func newFakeSource() *fakeSource {
	s := &fakeSource{rows: make(map[int64]*fakeRow), commits: make(chan struct{}, 1), share: fakeLanes}
	for n := range fakeLanes {
		s.lanes = append(s.lanes, contract.Lane{Number: n, Epoch: 1})
	}
	return s
}

// add commits messages.
func (s *fakeSource) add(msgs ...waybill.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range msgs {
		s.position++
		lane := int(s.position % fakeLanes)
		if m.Key != "" {
			lane = int(m.Key[len(m.Key)-1]) % fakeLanes
		}
		s.rows[s.position] = &fakeRow{Claim: contract.Claim{Message: m, Position: s.position, Lane: contract.Lane{Number: lane}}}
	}
	select {
	case s.commits <- struct{}{}:
	default:
	}
}

func (s *fakeSource) RenewLanes(_ context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lanes = slices.DeleteFunc(slices.Clone(s.lanes), func(l contract.Lane) bool { return slices.Contains(req.Give, l.Number) })
	return contract.Lease{Lanes: slices.Clone(s.lanes), Share: s.share, Total: fakeLanes}, nil
}

func (s *fakeSource) LeaveLanes(context.Context, string) error { return nil }

func (s *fakeSource) ClaimMessages(_ context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims++
	first := s.firstWaiting()
	var claims []contract.Claim
	for _, row := range s.sorted() {
		i := slices.IndexFunc(req.Lanes, func(l contract.Lane) bool { return l.Number == row.Lane.Number })
		_, held := slices.BinarySearch(req.Held, row.Position)
		ahead, waits := first[unit{row.Message.Topic, row.Message.Key}]
		blocked := waits && ahead < row.Position && row.Message.Key != ""
		if i < 0 || held || row.Waiting && (!req.Due || time.Now().Before(row.due) || blocked) {
			continue
		}
		c := row.Claim
		c.Lane, c.Blocked = req.Lanes[i], !row.Waiting && blocked
		if claims = append(claims, c); req.Full(claims) {
			break
		}
	}
	return claims, nil
}

func (s *fakeSource) ClaimAhead(_ context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stays, limits := make(map[unit]bool), contract.ClaimRequest{Limit: req.Limit, Bytes: req.Bytes}
	for _, row := range s.sorted() {
		i := slices.IndexFunc(req.Lanes, func(l contract.Lane) bool { return l.Number == row.Lane.Number })
		_, held := slices.BinarySearch(req.Held, row.Position)
		if i < 0 || held || row.Waiting {
			continue
		}
		u := unit{row.Message.Topic, row.Message.Key}
		if row.Position <= req.Above || slices.Contains(req.Without, row.Message.Tenant) || u.key != "" && stays[u] {
			stays[u] = true
			continue
		}
		c := row.Claim
		c.Lane = req.Lanes[i]
		first, waits := s.firstWaiting()[u]
		c.Blocked = waits && first < row.Position && u.key != ""
		if claims = append(claims, c); limits.Full(claims) {
			break
		}
	}
	return claims, req.Reached(claims, s.position), nil
}

func (s *fakeSource) sorted() []*fakeRow {
	return slices.SortedFunc(maps.Values(s.rows), func(a, b *fakeRow) int { return cmp.Compare(a.Position, b.Position) })
}

// unit is what order is kept by; there is one destination each in these tests.
type unit struct{ topic, key string }

// firstWaiting returns the position of the first waiting message of each unit.
func (s *fakeSource) firstWaiting() map[unit]int64 {
	first := make(map[unit]int64)
	for position, row := range s.rows {
		u := unit{row.Message.Topic, row.Message.Key}
		if other, ok := first[u]; row.Waiting && (!ok || position < other) {
			first[u] = position
		}
	}
	return first
}

func (s *fakeSource) SettleMessages(_ context.Context, req contract.SettleRequest) (lost []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settles++
	if s.refuse != nil {
		return nil, s.refuse
	}
	if slices.ContainsFunc(req.Settlements, func(st contract.Settlement) bool { return st.Claim.Message.ID == s.refuseID }) {
		return nil, errRefused
	}
	for _, st := range req.Settlements {
		c := st.Claim
		if !slices.Contains(s.lanes, c.Lane) {
			lost = append(lost, c.Lane.Number)
			continue
		}
		row := s.rows[c.Position]
		switch st.Outcome {
		case contract.Published, contract.Fanout:
			delete(s.rows, c.Position)
			for _, d := range st.Destinations {
				s.position++
				s.rows[s.position] = &fakeRow{Claim: contract.Claim{Message: c.Message, Position: s.position, Lane: row.Lane, Waiting: true, Destination: d}}
			}
		case contract.Dead, contract.Failed:
			delete(s.rows, c.Position)
			s.dead = append(s.dead, c.Message.ID)
		case contract.Wait:
			row.Waiting, row.Attempts, row.Destination, row.due = true, st.Attempts, c.Destination, time.Now().Add(st.After)
		default:
			return nil, fmt.Errorf("the fake knows no outcome %d", st.Outcome)
		}
	}
	return lost, nil
}

func (s *fakeSource) CountParked(context.Context, []contract.Lane) (keys, messages int, err error) {
	return 0, 0, nil
}

// wait adds a message that waits for another attempt, without a word to the relay.
func (s *fakeSource) wait(m waybill.Message, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.position++
	lane := contract.Lane{Number: int(s.position % fakeLanes)}
	s.rows[s.position] = &fakeRow{Claim: contract.Claim{Message: m, Position: s.position, Lane: lane, Waiting: true}, due: due}
}

// schedule adds a message that goes to the others when it is due.
func (s *fakeSource) schedule(m waybill.Message, due time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scheduled = append(s.scheduled, fakeRow{Claim: contract.Claim{Message: m}, due: due})
}

func (s *fakeSource) ReleaseScheduled(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	s.looks++
	if s.refuseRelease != nil {
		s.mu.Unlock()
		return 0, s.refuseRelease
	}
	var due []waybill.Message
	s.scheduled = slices.DeleteFunc(s.scheduled, func(row fakeRow) bool {
		if len(due) == limit || time.Now().Before(row.due) {
			return false
		}
		due = append(due, row.Message)
		return true
	})
	s.mu.Unlock()
	if len(due) > 0 {
		s.add(due...)
	}
	return len(due), nil
}

func (s *fakeSource) MaintainArchive(context.Context, contract.MaintainRequest) (contract.Maintained, error) {
	return contract.Maintained{}, nil
}

func (s *fakeSource) AwaitMessages(ctx context.Context, _ string) error {
	select {
	case <-s.commits:
	case <-ctx.Done():
	}
	return nil
}

// list returns copies of what is left.
func (s *fakeSource) list() []fakeRow {
	s.mu.Lock()
	defer s.mu.Unlock()
	var rows []fakeRow
	for _, row := range s.rows {
		rows = append(rows, *row)
	}
	return rows
}

// buried returns the ids of the dead letters.
func (s *fakeSource) buried() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dead)
}

func (s *fakeSource) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// fakeBroker records what arrives. What it does with a message is up to answer: after a
// while, an error.
type fakeBroker struct {
	answer func(m contract.Outgoing) (time.Duration, error)

	mu      sync.Mutex
	arrived []string // ids
	at      map[string]time.Time
	most    int // batches at a time
	now     int
}

func (b *fakeBroker) Send(ctx context.Context, msgs []contract.Outgoing) func() []error {
	b.mu.Lock()
	b.now++
	b.most = max(b.most, b.now)
	b.mu.Unlock()
	return func() []error {
		defer func() {
			b.mu.Lock()
			b.now--
			b.mu.Unlock()
		}()
		errs := make([]error, len(msgs))
		for i, m := range msgs {
			errs[i] = b.take(ctx, m)
		}
		return errs
	}
}

func (b *fakeBroker) take(ctx context.Context, m contract.Outgoing) error {
	if b.answer != nil {
		wait, err := b.answer(m)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return waybill.UnavailableError(ctx.Err())
		}
		if err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrived = append(b.arrived, m.ID)
	if b.at == nil {
		b.at = make(map[string]time.Time)
	}
	b.at[m.ID] = time.Now()
	return nil
}

func (b *fakeBroker) ids() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.arrived)
}

// message returns a message; its id says topic, key and number.
func message(topic, key string, n int) waybill.Message {
	return waybill.Message{ID: fmt.Sprintf("%s/%s/%d", topic, key, n), Topic: topic, Key: key, Tenant: waybill.DefaultTenant}
}

var errRefused = errors.New("refused")

// pass lets a while of virtual time go by, and what it sets off end.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

var quiet = observe.LogTo(slog.New(slog.DiscardHandler))

// inBubble runs a relay with virtual time until test returns.
func inBubble(t *testing.T, src *fakeSource, destinations []Destination, cfg Config, test func(t *testing.T, r *Relay)) {
	t.Helper()
	inBubbleWith(t, src, src, destinations, cfg, test)
}

// inBubbleWith is inBubble for a source that is made of a fake one.
func inBubbleWith(t *testing.T, whole contract.Source, src *fakeSource, destinations []Destination, cfg Config, test func(t *testing.T, r *Relay)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if cfg.Observer == nil {
			cfg.Observer = quiet
		}
		src.commits = make(chan struct{}, 1) // of this bubble
		r, err := NewFanout(whole, destinations, cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		test(t, r)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
