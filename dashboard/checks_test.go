package dashboard

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestChecks_InTheBackground shows that no view waits for checks, that they are made once at
// a time and at most once a minute, and that they outlive the request that has asked.
func TestChecks_InTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t, full())
		calls := 0
		cfg.Checks = func(ctx context.Context) []Finding {
			calls++
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
				return []Finding{{Fail, "clock", "the context has ended", ""}}
			}
			return []Finding{{OK, "route", "straight", ""}, {Note, "time zone", "Asia/Tokyo", "any will do"},
				{Warn, "clock", "differs", "set it"}, {Fail, "broker", "refuses", "start it"}}
		}
		d := newDashboard(t, cfg)
		see := func(path string) string {
			began := time.Now()
			body := asked{path: path, token: secrets["reader"]}.send(d).Body.String()
			if waited := time.Since(began); waited > 0 {
				t.Errorf("%s waited for %v", path, waited)
			}
			return body
		}
		for _, path := range []string{"/", "/checks", "/checks"} {
			if !strings.Contains(see(path), "being made") {
				t.Errorf("%s does not say that the checks are being made", path)
			}
		}
		time.Sleep(31 * time.Second)
		page, overview := see("/checks"), see("/")
		last := 0
		for _, what := range []string{"refuses", "differs", "Asia/Tokyo", "straight"} {
			at := strings.Index(page, what)
			if at < last {
				t.Errorf("%q is not on the page of checks behind what is worse", what)
			}
			last = at
		}
		if !strings.Contains(page, "1s ago") {
			t.Error("the page does not say when the checks were made")
		}
		if strings.Contains(overview, "straight") || !strings.Contains(overview, "refuses") || !strings.Contains(overview, "2 more findings") ||
			strings.Index(overview, "refuses") > strings.Index(overview, "differs") {
			t.Error("the overview does not show what is wrong only, the worst first")
		}
		if calls != 1 {
			t.Errorf("the checks were made %d times in 5 views, want once", calls)
		}
		time.Sleep(time.Minute)
		see("/")
		see("/")
		synctest.Wait()
		if calls != 2 {
			t.Errorf("after a minute they were made %d times, want twice", calls)
		}
		time.Sleep(time.Hour) // let them end
	})
}

func TestChecks_Panic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cfg := testConfig(t, full())
		cfg.Checks = func(context.Context) []Finding { panic("S3CR3T") }
		d := newDashboard(t, cfg)
		asked{path: "/", token: secrets["reader"]}.send(d)
		synctest.Wait()
		body := asked{path: "/checks", token: secrets["reader"]}.send(d).Body.String()
		if !strings.Contains(body, "could not be made") || strings.Contains(body, "S3CR3T") {
			t.Errorf("the page of checks says\n%s", body)
		}
	})
}

func TestChecks_None(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t, full())
	cfg.Checks = nil
	d := newDashboard(t, cfg)
	if w := (asked{path: "/checks", token: secrets["reader"]}).send(d); w.Code != 404 {
		t.Errorf("/checks: status %d, want 404", w.Code)
	}
	if body := (asked{path: "/", token: secrets["reader"]}).send(d).Body.String(); strings.Contains(body, `href="./checks"`) {
		t.Error("the overview leads to checks that nobody makes")
	}
}
