package janitor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// shelf is a store of some expired rows. Each batch takes a second.
type shelf struct {
	expired map[Kind]int64
	fail    map[Kind]error
	limits  []int
	at      []time.Time // of each batch
	folds   int
	archive []contract.MaintainRequest
	silent  atomic.Bool // answers nothing
}

// answer waits for the end of ctx if the store is silent.
func (s *shelf) answer(ctx context.Context) error {
	if s.silent.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (s *shelf) CountExpired(ctx context.Context, rows Rows) (int64, error) {
	if err := s.answer(ctx); err != nil {
		return 0, err
	}
	if err := s.fail[rows.Kind]; err != nil && !errors.Is(err, ErrBusy) {
		return 0, err
	}
	return s.expired[rows.Kind], nil
}

func (s *shelf) PurgeExpired(ctx context.Context, rows Rows, limit int) (int64, error) {
	if err := s.answer(ctx); err != nil {
		return 0, err
	}
	if err := s.fail[rows.Kind]; err != nil {
		return 0, err
	}
	s.limits, s.at = append(s.limits, limit), append(s.at, time.Now())
	<-time.After(time.Second)
	n := min(s.expired[rows.Kind], int64(limit))
	s.expired[rows.Kind] -= n
	return n, nil
}

func (s *shelf) FoldDeadLetters(ctx context.Context) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.folds++
	return nil
}

func (s *shelf) MaintainArchive(ctx context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	if err := s.answer(ctx); err != nil {
		return contract.Maintained{}, err
	}
	s.archive = append(s.archive, req)
	return contract.Maintained{Rows: 3, Dropped: 2}, nil
}

// events collects what is observed.
type events struct {
	observe.Observer
	mu   sync.Mutex
	seen []observe.Event
}

func (e *events) Observe(_ context.Context, event observe.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, event)
}

// list returns what was observed so far.
func (e *events) list() []observe.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.seen)
}

func newTest(t *testing.T, s *shelf, cfg Config) (*Janitor, *events) {
	t.Helper()
	seen := &events{}
	cfg.Observer = seen
	j, err := New(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return j, seen
}

func TestPurge_PausesAsLongAsABatchTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{expired: map[Kind]int64{Inbox: 25}}
		done, err := Purge(t.Context(), s, Rows{Kind: Inbox, OlderThan: time.Hour}, 10)
		if want := (Purged{Candidates: 25, Deleted: 25, Batches: 3}); err != nil || done != want {
			t.Fatalf("Purge() = %+v, %v, want %+v", done, err, want)
		}
		for i, at := range s.at[1:] {
			if gap := at.Sub(s.at[i]); gap != 2*time.Second {
				t.Errorf("batches begin %v apart, want twice what one takes", gap)
			}
		}
	})
}

func TestPurge_LeavesTheRestToAnother(t *testing.T) {
	t.Parallel()
	s := &shelf{expired: map[Kind]int64{Inbox: 25}, fail: map[Kind]error{Inbox: ErrBusy}}
	done, err := Purge(t.Context(), s, Rows{Kind: Inbox, OlderThan: time.Hour}, 10)
	if want := (Purged{Candidates: 25, Busy: true}); err != nil || done != want {
		t.Errorf("Purge() = %+v, %v, want %+v", done, err, want)
	}
}

func TestJanitor_Clean(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{expired: map[Kind]int64{Inbox: 5, Leases: 4, Sagas: 6, Audit: 2, Responses: 7}, fail: map[Kind]error{Letters: errors.New("no permission")}}
		j, seen := newTest(t, s, Config{OutboxRetention: time.Hour})
		reports, err := j.Clean(t.Context())
		if err == nil || waybill.IsConflict(err) {
			t.Errorf("Clean() = %v, want the error of the letters", err)
		}
		got := make(map[Kind]int64)
		for _, r := range reports {
			got[r.Rows] = r.Deleted
		}
		for kind, want := range map[Kind]int64{Inbox: 5, Attempts: 0, Leases: 4, Letters: 0, Sagas: 6, Audit: 2, Responses: 7, Archive: 3} {
			if n, ok := got[kind]; n != want || !ok {
				t.Errorf("%s: %d removed, want %d", kind, n, want)
			}
		}
		want := []observe.Event{
			{Op: observe.OpCleanup, Name: "inbox", Count: 5}, {Op: observe.OpCleanup, Name: "inbox_leases", Count: 4},
			{Op: observe.OpCleanup, Name: "sagas", Count: 6}, {Op: observe.OpCleanup, Name: "audit_log", Count: 2},
			{Op: observe.OpCleanup, Name: "idempotency_responses", Count: 7},
			{Op: observe.OpCleanup, Name: "outbox_archive", Count: 3}, {Op: observe.OpDropPartitions, Name: "outbox_archive", Count: 2},
		}
		if len(seen.list()) != len(want) {
			t.Fatalf("observed %+v, want %d events", seen.list(), len(want))
		}
		for i, w := range want {
			if e := seen.list()[i]; e.Op != w.Op || e.Name != w.Name || e.Count != w.Count {
				t.Errorf("observed %+v, want %+v", e, w)
			}
		}
	})
}

func TestJanitor_Preview(t *testing.T) {
	t.Parallel()
	s := &shelf{expired: map[Kind]int64{Inbox: 5}}
	j, _ := newTest(t, s, Config{OutboxRetention: time.Hour})
	reports, err := j.Preview(t.Context())
	if err != nil || len(reports) != 7 || reports[0].Candidates != 5 || s.expired[Inbox] != 5 || s.limits != nil || s.archive != nil {
		t.Errorf("Preview() = %+v, %v, want 5 records found and nothing touched", reports, err)
	}
}

// runFor runs a janitor for d and returns how often it looked at the archive.
func runFor(t *testing.T, s *shelf, cfg Config, d time.Duration) (cleanups int, seen *events) {
	t.Helper()
	cfg.OutboxRetention = time.Hour
	j, seen := newTest(t, s, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := j.Run(ctx); err != nil {
		t.Errorf("Run() = %v", err)
	}
	return len(s.archive), seen
}

func TestJanitor_Run(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name        string
		cfg         Config
		fail        error
		least, most int
	}{
		{"every hour", Config{}, nil, 10, 12},
		{"an interval", Config{CleanupInterval: 10 * time.Minute}, nil, 55, 67},
		{"a lock is in the way", Config{}, waybill.ConflictError(errors.New("locked")), 540, 670},
		{"disabled", Config{DisableCleanup: true}, nil, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &shelf{expired: map[Kind]int64{}, fail: map[Kind]error{Inbox: tt.fail}}
				n, seen := runFor(t, s, tt.cfg, 10*time.Hour)
				if n < tt.least || n > tt.most {
					t.Errorf("%d clean-ups in ten hours, want %d to %d", n, tt.least, tt.most)
				}
				if s.folds < 7190 || s.folds > 7201 {
					t.Errorf("counted %d times in ten hours, want every 5 s", s.folds)
				}
				if conflicts := tt.fail != nil; conflicts != (len(seen.list()) > 0 && seen.list()[0].Err != nil) {
					t.Errorf("first observed %+v", seen.list()[:1])
				}
			})
		})
	}
}

func TestJanitor_BatchSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for size, want := range map[int]int{0: 1000, 7: 7} {
			s := &shelf{expired: map[Kind]int64{Inbox: 1}}
			j, _ := newTest(t, s, Config{CleanupBatchSize: size})
			if _, err := j.Clean(t.Context()); err != nil || len(s.limits) != 1 || s.limits[0] != want {
				t.Errorf("CleanupBatchSize %d: %v, %v, want a batch of %d", size, s.limits, err, want)
			}
		}
	})
}

func TestJanitor_Health(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{fail: map[Kind]error{Inbox: errors.New("down")}}
		j, _ := newTest(t, s, Config{})
		if j.Health() == nil {
			t.Error("Health() = nil before Run")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- j.Run(ctx) }()
		time.Sleep(time.Minute)
		if err := j.Run(ctx); err == nil {
			t.Error("a second Run() = nil")
		}
		if err := j.Health(); err != nil {
			t.Errorf("Health() = %v soon after the start", err)
		}
		time.Sleep(4 * time.Hour)
		if err := j.Health(); err == nil {
			t.Error("Health() = nil after hours without success")
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

func TestNew_Refuses(t *testing.T) {
	t.Parallel()
	type bare struct{ Store }
	for _, tt := range []struct {
		name, field string
		store       Store
		cfg         Config
	}{
		{"no store", "store", nil, Config{}},
		{"inbox below zero", "janitor.Config.InboxRetention", &shelf{}, Config{InboxRetention: -1}},
		{"leases below zero", "janitor.Config.LeaseRetention", &shelf{}, Config{LeaseRetention: -1}},
		{"letters before the inbox", "janitor.Config.DeadLetterRetention", &shelf{}, Config{InboxRetention: 2 * day, DeadLetterRetention: day}},
		{"sagas before the inbox", "janitor.Config.SagaRetention", &shelf{}, Config{InboxRetention: 2 * day, SagaRetention: day}},
		{"audit below zero", "janitor.Config.AuditRetention", &shelf{}, Config{AuditRetention: -1}},
		{"outbox below zero", "janitor.Config.OutboxRetention", &shelf{}, Config{OutboxRetention: -1}},
		{"no archive", "janitor.Config.OutboxRetention", bare{}, Config{OutboxRetention: day}},
		{"interval", "janitor.Config.CleanupInterval", &shelf{}, Config{CleanupInterval: time.Millisecond}},
		{"long interval", "janitor.Config.CleanupInterval", &shelf{}, Config{CleanupInterval: 25 * time.Hour}},
		{"batch size", "janitor.Config.CleanupBatchSize", &shelf{}, Config{CleanupBatchSize: 10_001}},
	} {
		_, err := New(tt.store, tt.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field {
			t.Errorf("%s: New() = %v, want an InvalidError of %s", tt.name, err, tt.field)
		}
	}
	if _, err := New(&shelf{}, Config{InboxRetention: 60 * day}); err != nil {
		t.Errorf("New() = %v with a long inbox retention, want letters and sagas to be kept as long", err)
	}
}

// TestJanitor_StoreGoesSilent: a store that answers nothing is reported, and asked again.
func TestJanitor_StoreGoesSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{expired: map[Kind]int64{}}
		j, seen := newTest(t, s, Config{OutboxRetention: day})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- j.Run(ctx) }()
		synctest.Wait()
		s.silent.Store(true)
		time.Sleep(4 * time.Hour)
		failed := map[string]bool{}
		for _, e := range seen.list() {
			failed[e.Name] = failed[e.Name] || e.Op == observe.OpLoop && e.Err != nil
		}
		if !failed["janitor"] || !failed["janitor fold"] || j.Health() == nil {
			t.Errorf("while the store is silent these loops fail: %v, Health() = %v, want both and an error", failed, j.Health())
		}
		s.silent.Store(false)
		time.Sleep(2 * time.Hour)
		if err := j.Health(); err != nil {
			t.Errorf("Health() = %v after the store is back", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}
