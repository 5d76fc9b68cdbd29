package relay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe"
)

// archiveSource is a source of which only the archive is looked after.
type archiveSource struct {
	contract.Source
	calls  []contract.MaintainRequest
	at     []time.Time
	answer func(call int) (contract.Maintained, error)
}

func (s *archiveSource) MaintainArchive(_ context.Context, req contract.MaintainRequest) (contract.Maintained, error) {
	s.calls, s.at = append(s.calls, req), append(s.at, time.Now())
	if s.answer == nil {
		return contract.Maintained{}, nil
	}
	return s.answer(len(s.calls))
}

// events collects what is observed.
type events struct {
	observe.Observer
	list []observe.Event
}

func (e *events) Observe(_ context.Context, event observe.Event) { e.list = append(e.list, event) }

// maintain lets a relay with cfg look after its archive for d.
func (s *archiveSource) maintain(t *testing.T, cfg Config, d time.Duration) []observe.Event {
	t.Helper()
	seen := &events{}
	cfg.Observer = seen
	cfg, err := cfg.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	(&Relay{src: s, cfg: cfg}).maintainArchive(ctx)
	return seen.list
}

// TestCleanup (AS-20): each option of a relay has an effect.
func TestCleanup(t *testing.T) {
	t.Parallel()
	t.Run("CleanupInterval", func(t *testing.T) {
		t.Parallel()
		for interval, want := range map[time.Duration]int{0: 3, 10 * time.Minute: 13} { // 0: the default of an hour
			synctest.Test(t, func(t *testing.T) {
				src := &archiveSource{}
				src.maintain(t, Config{CleanupInterval: interval}, 2*time.Hour+time.Second)
				if len(src.calls) != want {
					t.Errorf("CleanupInterval %v: %d clean-ups in two hours, want %d", interval, len(src.calls), want)
				}
			})
		}
	})
	t.Run("CleanupBatchSize, Retention, DisableCleanup", func(t *testing.T) {
		t.Parallel()
		const day = 24 * time.Hour
		for _, tt := range []struct {
			name string
			cfg  Config
			want contract.MaintainRequest
		}{
			{"the defaults", Config{}, contract.MaintainRequest{Retention: 7 * day, BatchSize: 1000}},
			{"a batch size", Config{CleanupBatchSize: 10}, contract.MaintainRequest{Retention: 7 * day, BatchSize: 10}},
			{"a retention", Config{Retention: day}, contract.MaintainRequest{Retention: day, BatchSize: 1000}},
			{"nothing is kept any more", Config{Retention: KeepNothing}, contract.MaintainRequest{Retention: 7 * day, BatchSize: 1000}},
			{"disabled: room for the next days, nothing removed", Config{DisableCleanup: true}, contract.MaintainRequest{BatchSize: 1000}},
			{"disabled, and nothing is kept", Config{DisableCleanup: true, Retention: KeepNothing}, contract.MaintainRequest{BatchSize: 1000}},
		} {
			synctest.Test(t, func(t *testing.T) {
				src := &archiveSource{}
				src.maintain(t, tt.cfg, time.Minute)
				if len(src.calls) != 1 || src.calls[0] != tt.want {
					t.Errorf("%s: asked for %+v, want %+v once", tt.name, src.calls, tt.want)
				}
			})
		}
	})
	t.Run("limits", func(t *testing.T) {
		t.Parallel()
		for _, tt := range []struct {
			field           string
			inside, outside Config
		}{
			{"CleanupInterval", Config{CleanupInterval: time.Second}, Config{CleanupInterval: time.Second - 1}},
			{"CleanupInterval", Config{CleanupInterval: 24 * time.Hour}, Config{CleanupInterval: 24*time.Hour + 1}},
			{"CleanupBatchSize", Config{CleanupBatchSize: 1}, Config{CleanupBatchSize: -1}},
			{"CleanupBatchSize", Config{CleanupBatchSize: 10_000}, Config{CleanupBatchSize: 10_001}},
		} {
			if _, err := tt.inside.withDefaults(); err != nil {
				t.Errorf("%+v: %v", tt.inside, err)
			}
			_, err := tt.outside.withDefaults()
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "relay.Config."+tt.field || !strings.Contains(invalid.Reason, "range") {
				t.Errorf("%s outside its range: %v", tt.field, err)
			}
		}
	})
}

func TestCleanup_Observed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &archiveSource{answer: func(call int) (contract.Maintained, error) {
			if call == 1 {
				time.Sleep(time.Second)
				return contract.Maintained{Rows: 12, Added: 3, Dropped: 2}, nil
			}
			return contract.Maintained{Busy: true}, nil
		}}
		got := src.maintain(t, Config{Node: "n"}, 5*time.Hour)
		want := []observe.Event{
			{Op: observe.OpAddPartitions, Name: "n", Count: 3},
			{Op: observe.OpDropPartitions, Name: "n", Count: 2},
			{Op: observe.OpCleanup, Name: "n", Count: 12, Duration: time.Second},
		}
		if len(got) != len(want) {
			t.Fatalf("observed %+v, want %+v", got, want)
		}
		for i := range want {
			if got[i].Op != want[i].Op || got[i].Name != want[i].Name || got[i].Count != want[i].Count || got[i].Duration != want[i].Duration {
				t.Errorf("observed %+v, want %+v", got[i], want[i])
			}
		}
	})
}

// TestCleanup_Conflict: a lock is no failure of the loop; the next try comes in a minute.
func TestCleanup_Conflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locked := waybill.ConflictError(errors.New("lock timeout"))
		src := &archiveSource{answer: func(call int) (contract.Maintained, error) {
			if call <= 2 {
				return contract.Maintained{Added: 1}, locked
			}
			return contract.Maintained{}, nil
		}}
		got := src.maintain(t, Config{}, time.Hour)
		if len(src.calls) != 3 || src.at[1].Sub(src.at[0]) != time.Minute || src.at[2].Sub(src.at[1]) != time.Minute {
			t.Errorf("clean-ups at %v, want 3, a minute apart", src.at)
		}
		if len(got) != 4 || got[1].Op != observe.OpCleanup || !errors.Is(got[1].Err, locked) {
			t.Errorf("observed %+v, want the day that was made and the lock, twice", got)
		}
	})
}

// TestCleanup_Failure: what else goes wrong is the loop's to report and to wait out.
func TestCleanup_Failure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		down := waybill.UnavailableError(errors.New("down"))
		src := &archiveSource{answer: func(call int) (contract.Maintained, error) {
			if call == 1 {
				return contract.Maintained{Rows: 5}, down
			}
			return contract.Maintained{}, nil
		}}
		got := src.maintain(t, Config{}, time.Minute)
		if len(src.calls) != 2 {
			t.Errorf("%d clean-ups within a minute, want 2", len(src.calls))
		}
		if len(got) != 2 || got[0].Op != observe.OpCleanup || got[0].Count != 5 || got[0].Err != nil || got[1].Op != observe.OpLoop || !errors.Is(got[1].Err, down) {
			t.Errorf("observed %+v, want the rows and the failed round", got)
		}
	})
}
