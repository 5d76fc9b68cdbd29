package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

const ms = time.Millisecond

// answer returns the body of an answer, or, with the id "", of an announcement.
func answer(name, url string, priority int, id string) string {
	return fmt.Sprintf(`{"kind":"inbox","name":%q,"version":"v1","endpoint":{"scheme":"https","url":%q,"auth":"bearer"},`+
		`"leaseDefaults":{"seconds":45},"retentionDays":14,"priority":%d,"correlationId":%q}`, name, url, priority, id)
}

func newFinder(t *testing.T, tr Transport, cfg Config) *Finder {
	t.Helper()
	if cfg.AllowedHosts == nil {
		cfg.AllowedHosts = []string{"*.example.com"}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f, err := NewFinder(tr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func find(t *testing.T, f *Finder, reason Reason, url string) Decision {
	t.Helper()
	d, err := f.Find(t.Context())
	if err != nil || d.Reason != reason || d.Endpoint.URL != url {
		t.Fatalf("Find() = %+v, %v, want %s %q", d, err, reason, url)
	}
	return d
}

// TestFind_Choice: which of several is chosen, after how long.
func TestFind_Choice(t *testing.T) {
	t.Parallel()
	const a, b, c = "https://a.example.com", "https://b.example.com", "https://c.example.com"
	for _, tc := range []struct {
		name     string
		said     []said
		want     string
		took     time.Duration
		accepted int
	}{
		{"one answer", []said{{10 * ms, "own", answer("a", a, 0, "OWN")}}, a, 160 * ms, 1},
		{"announced and answered", []said{{10 * ms, "", answer("a", a, 0, "")}, {20 * ms, "own", answer("a", a, 0, "OWN")}}, a, 160 * ms, 1},
		{"the higher priority within the window", []said{
			{10 * ms, "own", answer("a", a, 1, "OWN")}, {159 * ms, "own", answer("b", b, 2, "OWN")},
		}, b, 160 * ms, 2},
		{"too late", []said{
			{10 * ms, "own", answer("a", a, 1, "OWN")}, {161 * ms, "own", answer("b", b, 2, "OWN")},
		}, a, 160 * ms, 1},
		{"one priority: by name", []said{
			{10 * ms, "own", answer("z", a, 1, "OWN")}, {20 * ms, "own", answer("a", b, 1, "OWN")},
		}, b, 160 * ms, 2},
		{"one name: by URL", []said{
			{10 * ms, "own", answer("a", c, 1, "OWN")}, {20 * ms, "own", answer("a", b, 1, "OWN")},
		}, b, 160 * ms, 2},
		{"answers to others", []said{
			{10 * ms, "other", answer("a", a, 9, "other")}, {20 * ms, "own", answer("b", b, 9, "other")},
			{30 * ms, "own", answer("c", c, 0, "OWN")},
		}, c, 180 * ms, 1},
		{"an answer without a correlation id in its body", []said{{0, "own", `{"endpoint":"https://a.example.com","kind":"inbox","name":"redis","version":"v1"}`}}, a, 150 * ms, 1},
		{"a service that starts meanwhile", []said{{2 * time.Second, "", answer("a", a, 0, "")}}, a, 2150 * ms, 1},
		{"the window ends with the timeout", []said{{2950 * ms, "own", answer("a", a, 0, "OWN")}}, a, 3 * time.Second, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFinder(t, &script{said: tc.said}, Config{Enabled: true})
				start := time.Now()
				d := find(t, f, ReasonDiscovered, tc.want)
				if d.Accepted != tc.accepted {
					t.Errorf("%d services were accepted, want %d", d.Accepted, tc.accepted)
				}
				if took := time.Since(start); took != tc.took {
					t.Errorf("Find took %v, want %v", took, tc.took)
				}
			})
		})
	}
}

func TestFind_Fields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFinder(t, &script{said: []said{{0, "own", answer("a", "https://a.example.com/inbox", -3, "OWN")}}}, Config{Enabled: true})
		d := find(t, f, ReasonDiscovered, "https://a.example.com/inbox")
		want := Endpoint{Name: "a", URL: "https://a.example.com/inbox", Auth: AuthBearer, LeaseDefault: 45 * time.Second, RetentionDays: 14, Priority: -3}
		if d.Endpoint != want {
			t.Errorf("endpoint = %+v, want %+v", d.Endpoint, want)
		}
	})
}

// TestFind_LateReply: what a transport says after the end of a ping changes nothing.
func TestFind_LateReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &script{said: []said{{0, "own", answer("a", "https://a.example.com", 1, "OWN")}}}
		f := newFinder(t, tr, Config{Enabled: true})
		s := newSearch(f)
		s.run()
		s.hear(s.id, []byte(answer("b", "https://b.example.com", 2, s.id)))
		if s.decision.Endpoint.Name != "a" || len(s.accepted) != 1 {
			t.Errorf("decision = %+v of %d, want that for a alone", s.decision, len(s.accepted))
		}
	})
}

func TestFind_Cache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const url = "https://a.example.com"
		tr := &script{said: []said{{0, "own", answer("a", url, 0, "OWN")}}}
		f := newFinder(t, tr, Config{Enabled: true})
		pings := func(want int) {
			t.Helper()
			if n := tr.count(); n != want {
				t.Fatalf("the broker was asked %d times, want %d", n, want)
			}
		}
		find(t, f, ReasonDiscovered, url)
		time.Sleep(5*time.Minute - ms)
		find(t, f, ReasonCached, url)
		pings(1)
		time.Sleep(ms)
		find(t, f, ReasonDiscovered, url)
		pings(2)
		f.Invalidate("https://other.example.com")
		find(t, f, ReasonCached, url)
		f.Invalidate(url)
		find(t, f, ReasonDiscovered, url)
		pings(3)

		other := newFinder(t, tr, Config{Enabled: true, Group: "shipping"})
		find(t, other, ReasonDiscovered, url) // nothing is shared between groups
		pings(4)
	})
}

// TestFind_Shared: callers that come at once ask once, also if the first gives up.
func TestFind_Shared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := &script{said: []said{{time.Second, "own", answer("a", "https://a.example.com", 0, "OWN")}}}
		f := newFinder(t, tr, Config{Enabled: true})
		hasty, cancel := context.WithTimeout(t.Context(), 10*ms)
		defer cancel()
		if _, err := f.Find(hasty); !errors.Is(err, context.DeadlineExceeded) || !waybill.IsUnavailable(err) {
			t.Errorf("Find() = %v, want the end of its context", err)
		}
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() { find(t, f, ReasonDiscovered, "https://a.example.com") })
		}
		callers.Wait()
		if n := tr.count(); n != 1 {
			t.Errorf("the broker was asked %d times, want once", n)
		}
	})
}

func TestFind_None(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		tr       *script
		reason   Reason
		took     time.Duration
		warnings int
	}{
		{"no answer", &script{}, ReasonNoneFound, 3 * time.Second, 1},
		{"no acceptable answer", &script{said: []said{{0, "own", `{}`}, {ms, "own", `?`}}}, ReasonNoneFound, 3 * time.Second, 2},
		{"no broker", &script{err: waybill.UnavailableError(errors.New("connection refused"))}, ReasonUnavailable, 0, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log logLines
				f := newFinder(t, tc.tr, Config{Enabled: true, Log: log.logger()})
				for range 3 {
					start := time.Now()
					find(t, f, tc.reason, "")
					if took := time.Since(start); took != tc.took {
						t.Errorf("Find took %v, want %v", took, tc.took)
					}
				}
				if n := log.count("level=WARN"); n != tc.warnings {
					t.Errorf("%d warnings, want %d:\n%s", n, tc.warnings, &log.buf)
				}
				if n := log.count("inbox service: " + string(tc.reason)); n != 1 {
					t.Errorf("%d decisions are logged, want 1:\n%s", n, &log.buf)
				}
				required := newFinder(t, tc.tr, Config{Enabled: true, Required: true})
				if d, err := required.Find(t.Context()); !errors.Is(err, ErrNoInbox) || !errors.Is(err, tc.tr.err) && tc.tr.err != nil || !waybill.IsUnavailable(err) || d.Reason != tc.reason {
					t.Errorf("Find() = %+v, %v, want ErrNoInbox, unavailable", d, err)
				}
			})
		})
	}
}

// TestFind_WarnsAgain: a service that is found and lost is worth another warning.
func TestFind_WarnsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		tr := &script{}
		f := newFinder(t, tr, Config{Enabled: true, Log: log.logger()})
		there := []said{{0, "own", answer("a", "https://a.example.com", 0, "OWN")}}
		for _, now := range [][]said{nil, there, nil} {
			tr.said = now
			if _, err := f.Find(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.Invalidate("https://a.example.com")
		}
		if n := log.count("level=WARN msg=\"inbox service: none-found\""); n != 2 {
			t.Errorf("%d warnings, want 2:\n%s", n, &log.buf)
		}
	})
}

// TestFind_Reasons: without the broker. The explicit endpoint wins whatever else is set.
func TestFind_Reasons(t *testing.T) {
	t.Parallel()
	const url = "http://10.0.0.7:8080/inbox"
	for _, tc := range []struct {
		name   string
		cfg    Config
		reason Reason
		url    string
	}{
		{"nothing is set", Config{}, ReasonDisabled, ""},
		{"an endpoint", Config{Endpoint: url}, ReasonExplicit, url},
		{"an endpoint, and discovery", Config{Endpoint: url, Enabled: true}, ReasonExplicit, url},
		{"an endpoint that is required, and discovery", Config{Endpoint: url, Enabled: true, Required: true}, ReasonExplicit, url},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var log logLines
			tc.cfg.Log = log.logger()
			f := newFinder(t, silent{t}, tc.cfg)
			find(t, f, tc.reason, tc.url)
			find(t, f, tc.reason, tc.url)
			if n := log.count("inbox service: " + string(tc.reason)); n != 1 {
				t.Errorf("%d records, want 1:\n%s", n, &log.buf)
			}
		})
	}
}

// TestFind_Flood: a shouting neighbour fills neither memory nor log.
func TestFind_Flood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log logLines
		f := newFinder(t, &script{}, Config{Enabled: true, Log: log.logger()})
		s := newSearch(f)
		s.first = func() {}
		for i := range 5000 {
			s.hear("", []byte(answer(fmt.Sprint(i), "https://rogue.example.net", 9, "")))
		}
		if s.heard != maxHeard || s.refused != maxHeard || log.count("\n") != 1 {
			t.Errorf("heard %d, refused %d, %d log records, want %d, %d and 1", s.heard, s.refused, log.count("\n"), maxHeard, maxHeard)
		}
		s = newSearch(f)
		s.first = func() {}
		for i := range 500 {
			s.hear("", []byte(answer(fmt.Sprint(i), "https://a.example.com", 9, "")))
		}
		if len(s.accepted) != maxAccepted {
			t.Errorf("%d are kept, want %d", len(s.accepted), maxAccepted)
		}
	})
}
