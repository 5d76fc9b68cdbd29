package deadletter

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestPlan_Check(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan  Plan
		field string // "" if it may be followed
	}{
		"defaults":               {Plan{}, ""},
		"slowest":                {Plan{Rate: 0.01}, ""},
		"too slow":               {Plan{Rate: 0.009}, "rate"},
		"fastest":                {Plan{Rate: MaxReplayRate}, ""},
		"too fast":               {Plan{Rate: MaxReplayRate + 0.1}, "rate"},
		"negative rate":          {Plan{Rate: -1}, "rate"},
		"infinite rate":          {Plan{Rate: math.Inf(1)}, "rate"},
		"no rate":                {Plan{Rate: math.NaN()}, "rate"},
		"never stops":            {Plan{MaxFailureRatio: 1}, ""},
		"more than all":          {Plan{MaxFailureRatio: 1.001}, "max_failure_ratio"},
		"negative ratio":         {Plan{MaxFailureRatio: -0.1}, "max_failure_ratio"},
		"no ratio":               {Plan{MaxFailureRatio: math.NaN()}, "max_failure_ratio"},
		"open letters":           {Plan{Filter: Filter{State: Open}}, ""},
		"resolved letters":       {Plan{Filter: Filter{State: Resolved}}, "state"},
		"text alone":             {Plan{Filter: Filter{Text: "timeout"}}, "text"},
		"text in a group":        {Plan{Filter: Filter{Text: "timeout", Fingerprint: "f"}}, ""},
		"text with a NUL":        {Plan{Filter: Filter{Text: "a\x00", Fingerprint: "f"}}, "text"},
		"consumer not UTF-8":     {Plan{Filter: Filter{Consumer: "\xff"}}, "consumer"},
		"the newest first":       {Plan{Filter: Filter{Newest: true}}, "newest"},
		"behind a page":          {Plan{Filter: Filter{After: 1}}, "limit"},
		"a limit":                {Plan{Filter: Filter{Limit: 1}}, "limit"},
		"until before since":     {Plan{Filter: Filter{Since: time.Unix(2, 0), Until: time.Unix(1, 0)}}, "until"},
		"origin that is unknown": {Plan{Filter: Filter{Origin: "broker"}}, "origin"},
	} {
		err := tc.plan.Check()
		var invalid *waybill.InvalidError
		if tc.field == "" && err != nil || tc.field != "" && (!errors.As(err, &invalid) || invalid.Field != tc.field) {
			t.Errorf("%s: Check() = %v, want the field %q", name, err, tc.field)
		}
	}
}

func TestPlan_Problem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ratio            float64
		requeued, failed int
		stops            bool
	}{
		{0, 9, 9, false},
		{0, 10, 5, false},
		{0, 10, 6, true},
		{0.1, 100, 10, false},
		{0.1, 100, 11, true},
		{1, 100, 100, false},
	} {
		problem := Plan{MaxFailureRatio: tc.ratio}.Problem(tc.requeued, tc.failed)
		if (problem != "") != tc.stops {
			t.Errorf("ratio %v: Problem(%d, %d) = %q, want it to stop: %v", tc.ratio, tc.requeued, tc.failed, problem, tc.stops)
		}
	}
	if got := (Plan{}).Problem(20, 11); !strings.Contains(got, "11 of 20") || !strings.Contains(got, "0.5") {
		t.Errorf("Problem() = %q, want both numbers and the limit", got)
	}
}

func TestNewReplayer_Refuses(t *testing.T) {
	t.Parallel()
	var store struct{ ReplayStore }
	for field, tc := range map[string]struct {
		store ReplayStore
		cfg   ReplayerConfig
	}{
		"store":                                  {nil, ReplayerConfig{}},
		"deadletter.ReplayerConfig.PollInterval": {store, ReplayerConfig{PollInterval: -1}},
		"deadletter.ReplayerConfig.RampStep":     {store, ReplayerConfig{RampStep: -1}},
	} {
		_, err := NewReplayer(tc.store, tc.cfg)
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("NewReplayer() = %v, want an InvalidError that names %s", err, field)
		}
	}
	if r, err := NewReplayer(store, ReplayerConfig{}); err != nil || r.Health() == nil {
		t.Errorf("NewReplayer() = %v, want one that is not healthy before Run", err)
	}
}

func TestPace_Speed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPace(&Replay{Plan: Plan{Rate: 300}}, 10*time.Second, now)
	for seconds, want := range map[int]float64{0: 1, 9: 1, 10: 2, 20: 5, 30: 10, 40: 20, 50: 50, 60: 100, 70: 200, 80: 300, 1e6: 300} {
		if got := p.speed(now.Add(time.Duration(seconds) * time.Second)); got != want {
			t.Errorf("speed after %d s = %v, want %v", seconds, got, want)
		}
	}
}

// What was missed is not made up for, and what others have requeued counts.
func TestPace_Due(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := newPace(&Replay{Plan: Plan{Rate: 50}, Requeued: 100}, time.Second, now)
	if n := p.due(now); n != 1 {
		t.Errorf("due at the beginning = %d, want 1", n)
	}
	now = now.Add(time.Hour)
	if n := p.due(now); n != 5 {
		t.Errorf("due after an hour = %d, want a tick's worth, 5", n)
	}
	p.progressed(120) // by all
	if n := p.due(now.Add(200 * time.Millisecond)); n != 0 {
		t.Errorf("due after others have requeued the rest = %d, want 0", n)
	}
	if n := p.due(now.Add(time.Second)); n == 0 {
		t.Error("due a second later = 0, want some")
	}
}
