package relay

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// parkedSource counts as it is told.
type parkedSource struct {
	Source
	keys, messages, asked int
	takes                 func()
	err                   error
}

func (s *parkedSource) CountParked(context.Context, []Lane) (keys, messages int, err error) {
	s.asked++
	if s.takes != nil {
		s.takes()
	}
	return s.keys, s.messages, s.err
}

// pressures records the events about back-pressure: 1 for a begin, 0 for an end.
type pressures []int

func (p *pressures) Start(ctx context.Context, _ waybill.Op, _ ...*waybill.Message) (context.Context, func(error)) {
	return ctx, func(error) {}
}

func (p *pressures) Observe(_ context.Context, e waybill.Event) {
	if e.Op == waybill.OpBackPressure {
		*p = append(*p, map[bool]int{true: 1}[e.Err != nil])
	}
}

func parkedRelay(src Source, cfg Config) (*Relay, *pressures) {
	seen := &pressures{}
	cfg.Observer = seen
	return &Relay{src: src, cfg: cfg, lanes: newLaneSet()}, seen
}

func TestBackPressure_Limits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &parkedSource{}
		r, seen := parkedRelay(src, Config{Order: Park, MaxParkedKeys: 3, MaxParkedMessages: 10})
		for _, tc := range []struct {
			keys, messages int
			want           bool
		}{{2, 9, false}, {3, 0, true}, {4, 20, true}, {2, 9, false}, {0, 10, true}, {0, 0, false}} {
			src.keys, src.messages = tc.keys, tc.messages
			full, err := r.backPressure(t.Context())
			s := r.totals.Status
			if err != nil || full != tc.want || s.BackPressure != tc.want || s.ParkedKeys != tc.keys || s.Parked != tc.messages {
				t.Errorf("%d keys, %d messages: %v, %v, status %+v, want %v", tc.keys, tc.messages, full, err, s, tc.want)
			}
			time.Sleep(parkedInterval)
		}
		if len(*seen) != 4 {
			t.Errorf("events = %v, want two begins and two ends", *seen)
		}
	})
}

func TestBackPressure_AsksSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name  string
			cfg   Config
			takes func()
			want  int // in a minute
		}{
			{"nothing parks", Config{Order: Skip, TopicOrder: map[string]OrderPolicy{"t": Block}}, nil, 0},
			{"every second", Config{TopicOrder: map[string]OrderPolicy{"t": Park}}, nil, 60},
			{"a twentieth of the time", Config{Order: Park}, func() { time.Sleep(time.Second) }, 3},
		} {
			tc.cfg.MaxParkedKeys, tc.cfg.MaxParkedMessages = 1, 1
			src := &parkedSource{takes: tc.takes}
			r, _ := parkedRelay(src, tc.cfg)
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
				if _, err := r.backPressure(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if src.asked != tc.want {
				t.Errorf("%s: asked %d times in a minute, want %d", tc.name, src.asked, tc.want)
			}
		}
	})
}

// TestBackPressure_Error: what was found before holds until the next count.
func TestBackPressure_Error(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		src := &parkedSource{keys: 1}
		r, _ := parkedRelay(src, Config{Order: Park, MaxParkedKeys: 1, MaxParkedMessages: 1})
		if full, err := r.backPressure(t.Context()); !full || err != nil {
			t.Fatalf("backPressure() = %v, %v, want true", full, err)
		}
		if got := r.parked.nap(time.Minute); got != parkedInterval {
			t.Errorf("nap() = %v under back-pressure, want until the next count", got)
		}
		time.Sleep(parkedInterval)
		src.err = errors.New("down")
		if full, err := r.backPressure(t.Context()); !full || !errors.Is(err, src.err) {
			t.Errorf("backPressure() = %v, %v, want still true, and the error", full, err)
		}
		src.err, src.keys = nil, 0
		if full, err := r.backPressure(t.Context()); full || err != nil {
			t.Errorf("backPressure() = %v, %v, want false", full, err)
		}
		if got := r.parked.nap(time.Minute); got != time.Minute {
			t.Errorf("nap() = %v without back-pressure, want what was asked for", got)
		}
	})
}
