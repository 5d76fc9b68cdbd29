package dashboard

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/traffic"
)

func TestStepOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		highest float64
		scale   []float64
		want    float64
	}{
		{0, nil, .0005}, {1, nil, .5}, {4, nil, 1}, {4.1, nil, 2}, {100, nil, 50}, {2000, nil, 500}, {2001, nil, 1000}, {8000, nil, 2000},
		{0, lagScale, .001}, {3, lagScale, 1}, {100, lagScale, 30}, {3600, lagScale, 1800}, {1e7, lagScale, 5e6},
	} {
		if got := stepOf(tc.highest, tc.scale); math.Abs(got-tc.want) > tc.want/1e6 {
			t.Errorf("stepOf(%v) = %v, want %v", tc.highest, got, tc.want)
		}
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 8, 1, 10, 0, 0, 0, time.UTC)
	d := draw(chart{Title: "Messages per second", From: from, Step: time.Minute, Label: ops.Rate, Lines: []line{
		{"published", []float64{0, 100, 50}},
		{"handled", []float64{math.NaN(), 25, math.NaN()}},
		{"failed", []float64{math.NaN(), math.NaN(), math.NaN()}},
	}})
	if got, want := fmt.Sprint(d.Values), fmt.Sprint([]tick{{"166.0", "0"}, {"89.0", "50"}, {"12.0", "100"}}); got != want {
		t.Errorf("values = %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(d.Times), fmt.Sprint([]tick{{"58.0", "10:00"}, {"344.0", "10:01"}, {"630.0", "10:02"}}); got != want {
		t.Errorf("times = %s, want %s", got, want)
	}
	for i, want := range []drawnLine{
		{"published", "M58.0 166.0h.01L344.0 12.0L630.0 89.0", 1, "50", "100"},
		{"handled", "M344.0 127.5h.01", 2, "–", "25"},
		{"failed", "", 3, "–", "–"},
	} {
		if d.Lines[i] != want {
			t.Errorf("line %d = %+v, want %+v", i, d.Lines[i], want)
		}
	}
	want := "Messages per second from 2026-08-01 10:00:00Z to 2026-08-01 10:03:00Z. published: 50 at the end, 100 at most; handled: 25 at the end, 25 at most; failed: nothing."
	if d.Description != want {
		t.Errorf("description = %q, want %q", d.Description, want)
	}
}

// TestDraw_Spans: the axis of times has a few labels, whatever is shown.
func TestDraw_Spans(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 8, 5, 10, 7, 0, 0, time.UTC)
	for _, s := range spans {
		step := traffic.StepFor(s.long)
		n := int(s.long / step)
		times := timesOf(now.Add(-s.long).Truncate(step), step, n)
		if len(times) < 4 || len(times) > timeTicks+1 {
			t.Errorf("%s: labels %v, want a few", s.Name, times)
		}
	}
}

// TestTraffic_Page: the page shows the figures that the store has, and no markup from names.
func TestTraffic_Page(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	for path, want := range map[string][]string{
		"/":                              {"Messages per second", `viewBox="0 0 640 190"`, "published <b>", "Backlog in messages"},
		"/traffic":                       {"published: 0 at the end, 10 at most", "&lt;b&gt;orders", "600", "relay-a", "Age of the oldest message"},
		"/traffic?topic=%3Cb%3Eorders":   {"Only topic &lt;b&gt;orders", "10 at most"},
		"/traffic?consumer=mailer":       {"Only consumer mailer", "handled: 0 at the end, 2 at most"},
		"/traffic?relay=relay-a":         {"Only relay relay-a", "10 at most"},
		"/consumers":                     {"In the last hour", `href="./traffic?span=hour&amp;consumer=mailer"`},
		"/traffic?span=week":             {"Messages per second"},
		"/traffic?span=year&topic=other": {"Only topic other"},
	} {
		body := asked{path: path, token: secrets["reader"]}.send(d).Body.String()
		checkHTML(t, path, body)
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s is without %q", path, text)
			}
		}
	}
}

// TestTraffic_Quiet: the overview shows no charts of nothing.
func TestTraffic_Quiet(t *testing.T) {
	t.Parallel()
	f := full()
	f.quiet = true
	d := newDashboard(t, testConfig(t, f))
	if body := (asked{path: "/", token: secrets["reader"]}).send(d).Body.String(); strings.Contains(body, "Messages per second") {
		t.Error("the overview has charts without any traffic")
	}
	if body := (asked{path: "/consumers", token: secrets["reader"]}).send(d).Body.String(); strings.Contains(body, "In the last hour") {
		t.Error("the page of consumers has a table without any traffic")
	}
}

// TestTraffic_None: of a store that keeps no traffic nothing is shown.
func TestTraffic_None(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	d.traffic = nil
	d.routes = d.routing()
	body := asked{path: "/", token: secrets["reader"]}.send(d).Body.String()
	if strings.Contains(body, "Messages per second") || strings.Contains(body, `href="./traffic`) {
		t.Error("the overview has charts, or a link to them")
	}
	if code := (asked{path: "/traffic", token: secrets["reader"]}).send(d).Code; code != 404 {
		t.Errorf("the page of traffic answers %d, want 404", code)
	}
}
