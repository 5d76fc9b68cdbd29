package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/alert"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

// newFile makes an SQLite store with one dead letter, and returns its URL.
func newFile(t *testing.T) string {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	if r := runProgram(t.Context(), nil, "migrate", "--store", url); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	return url
}

// buryAt makes a dead letter in an SQLite store.
func buryAt(t *testing.T, url, id string) {
	t.Helper()
	db, store, err := opener.OpenSQL(t.Context(), opener.StoreConfig{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	m := waybill.Message{ID: id, Topic: "orders", Source: "shop"}
	m.Complete()
	if _, err := store.BuryMessage(t.Context(), inbox.Letter{Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: 1}); err != nil {
		t.Fatal(err)
	}
}

// TestWatch: two turns of a dead letter, as a webhook receives them.
func TestWatch(t *testing.T) {
	t.Parallel()
	url, secret := newFile(t), httpbroker.NewSecret()
	received := make(chan alert.Alert, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || httpbroker.Verify(r.Header, body, 0, secret) != nil {
			t.Errorf("an alert is not signed: %v", err)
		}
		var d struct{ Alerts []alert.Alert }
		if err := json.Unmarshal(body, &d); err != nil {
			t.Error(err)
		}
		for _, a := range d.Alerts {
			received <- a
		}
	}))
	t.Cleanup(hook.Close)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log bytes.Buffer
	state, done := filepath.Join(t.TempDir(), "s.json"), make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"watch", "--store", url, "--interval", "100ms", "--dashboard", "https://waybill.example/", "--state", state},
			[]string{"WAYBILL_WATCH_WEBHOOK=" + hook.URL + "/T0K3N", "WAYBILL_WATCH_SECRET=" + string(secret)}, io.Discard, &log)
	}()
	next := func(want alert.Event) alert.Alert {
		t.Helper()
		select {
		case a := <-received:
			if a.Event != want || a.Subject != "dead letters" {
				t.Fatalf("received %+v, want that dead letters have %s", a, want)
			}
			return a
		case code := <-done:
			t.Fatalf("exit code %d: %s", code, log.String())
		case <-time.After(testPatience):
			t.Fatalf("nothing received, want that dead letters have %s", want)
		}
		return alert.Alert{}
	}
	for i, id := range []string{"a", "b"} {
		buryAt(t, url, id)
		a := next(alert.Began)
		if a.Found != "1 open letter: 1 of consumer billing" || a.Dashboard != "https://waybill.example/dead" || !strings.HasSuffix(a.Runbook, "/docs/runbooks.md#dead-letters-appear") {
			t.Errorf("received %+v", a)
		}
		if r := runProgram(t.Context(), nil, "dead", "discard", []string{"1", "2"}[i], "--store", url); r.code != exitOK {
			t.Fatal(r.stderr)
		}
		if a := next(alert.Ended); a.Until.IsZero() {
			t.Errorf("received %+v, want until when", a)
		}
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if text := log.String(); strings.Contains(text, "T0K3N") || strings.Contains(text, string(secret)) || !strings.Contains(text, "watch has stopped") {
		t.Errorf("the log is\n%s", text)
	}
}

// TestWatch_Once: nothing is sent, and the state stays as it is.
func TestWatch_Once(t *testing.T) {
	t.Parallel()
	url, dir := newFile(t), t.TempDir()
	state := filepath.Join(dir, "s.json")
	once := func(args ...string) string {
		t.Helper()
		r := runProgram(t.Context(), nil, append([]string{"watch", "--once", "--store", url, "--state", state, "--slack", "http://" + closedPort(t) + "/x"}, args...)...)
		if r.code != exitOK {
			t.Fatal(r.stderr)
		}
		return r.stdout
	}
	if got := once(); got != "Nothing would be sent.\n" {
		t.Errorf("prints %q", got)
	}
	if got := once("--json"); got != "[]\n" {
		t.Errorf("prints %q", got)
	}
	buryAt(t, url, "a")
	for range 2 {
		matchText(t, "stdout", once(), `
EVENT           SUBJECT       FOUND
began  warning  dead letters  1 open letter: 1 of consumer billing → see: waybill dead groups
`)
	}
	if got := once("--severity", "problem"); got != "Nothing would be sent.\n" {
		t.Errorf("of problems only: %q", got)
	}
	if _, err := os.Stat(state); !os.IsNotExist(err) {
		t.Errorf("the state: %v, want it not written", err)
	}
	old, _ := alert.State{}.Next(alert.Check{At: night, Findings: []alert.Finding{{Severity: "problem", Subject: "broker", Found: "away"}, {Subject: "dead letters"}}}, 1)
	if err := writeState(state, old); err != nil {
		t.Fatal(err)
	}
	matchText(t, "stdout", once(), `
EVENT           SUBJECT  FOUND
ended  problem  broker   away
`)
	r := runProgram(t.Context(), nil, "watch", "--once", "--store", "postgres://app:S3CR3T@"+closedPort(t)+"/x", "--broker", "amqp://"+closedPort(t)+"/")
	matchText(t, "stdout", r.stdout, `
EVENT           SUBJECT  FOUND
began  problem  store    cannot reach the store postgres://app:xxxxx@… → start it, or correct --store
`)
}

func TestWatch_Refuses(t *testing.T) {
	t.Parallel()
	url := newFile(t)
	broken := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"nobody is alerted: give --webhook":                    nil,
		"watch.webhook (--watch-webhook): needs a secret":      {"--webhook", "https://hooks.example/S3CR3T"},
		"watch.slack (--watch-slack): is no URL":               {"--slack", "S3CR3T"},
		"watch.mail (--watch-mail): the server is no URL":      {"--mail", "mail.example:S3CR3T"},
		"watch.mail (--watch-mail): there is no recipient":     {"--mail", "smtp://u:S3CR3T@mail.example", "--mail-from", "a@b.example"},
		"is no state of waybill watch":                         {"--state", broken, "--slack", "https://hooks.example/S3CR3T"},
		"unusable URL: store":                                  {"--slack", "https://hooks.example/S3CR3T", "--store", "oracle://u:S3CR3T@h/x"},
		"watch.interval (--watch-interval): 99ms is out of":    {"--interval", "99ms"},
		`watch.severity (--watch-severity): "note" is not one`: {"--severity", "note"},
	} {
		r := runProgram(t.Context(), nil, append([]string{"watch", "--store", url}, args...)...)
		if r.code == exitOK || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr+r.stdout, "S3CR3T") {
			t.Errorf("%v: exit code %d, %s, want %q without the secret", args, r.code, r.stderr, want)
		}
	}
	r := runProgram(t.Context(), []string{"WAYBILL_WATCH_SLACK=https://hooks.example/S3CR3T", "WAYBILL_WATCH_WEBHOOK=https://h.example/S3CR3T",
		"WAYBILL_WATCH_SECRET=S3CR3T", "WAYBILL_WATCH_MAIL=smtp://u:S3CR3T@mail.example"}, "config")
	if r.code != exitOK || strings.Contains(r.stdout, "S3CR3T") || !strings.Contains(r.stdout, "smtp://u:xxxxx@mail.example") {
		t.Errorf("config shows\n%s", r.stdout)
	}
}

func TestCheckOf(t *testing.T) {
	t.Parallel()
	ok, note := passing("clock", "fine"), noting("time zone", "Asia/Tokyo", "any will do")
	warn, bad := warning("dead letters", "3", "see").on("x"), failing("broker", "away", "start it")
	for _, tt := range []struct {
		name, severity string
		findings       []finding
		want           string
		partial        bool
	}{
		{"nothing", "", nil, "", false},
		{"what is not wrong", "", []finding{ok, note}, "", false},
		{"what is", "", []finding{ok, note, warn, bad}, "dead letters/x broker/", false},
		{"problems only", "problem", []finding{ok, note, warn, bad}, "broker/", false},
		{"the store is away, and nothing else", "", []finding{unreadable("store", "away", "start it"), bad}, "store/", true},
		{"something is not readable", "", []finding{warn, unreadable("outbox", "denied", "grant")}, "dead letters/x outbox/", true},
		{"a warning that is not readable counts for the rest", "problem", []finding{{Finding: ops.Finding{Severity: ops.Warning, Subject: "t"}, unread: true}}, "", true},
	} {
		cfg, err := config.Load(map[string]string{"watch-dashboard": "https://d.example/w"}, []string{"WAYBILL_WATCH_SEVERITY=" + cmp.Or(tt.severity, "warning")}, "")
		if err != nil {
			t.Fatal(err)
		}
		c := examination{cfg: cfg}.checkOf(tt.findings, night)
		var got []string
		for _, f := range c.Findings {
			got = append(got, f.Subject+"/"+f.About)
			if !strings.HasPrefix(f.Dashboard, "https://d.example/w/") || !strings.Contains(f.Runbook, "/docs/") {
				t.Errorf("%s: links are %s and %s", tt.name, f.Dashboard, f.Runbook)
			}
		}
		if strings.Join(got, " ") != tt.want || c.Partial != tt.partial || !c.At.Equal(night) {
			t.Errorf("%s: %q, partial: %t, want %q, %t", tt.name, got, c.Partial, tt.want, tt.partial)
		}
	}
}

// TestPlaceOf: the sections exist; those of docs/operations.md are for what has none of its own.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{
		"store", "broker", "pending", "relays", "lanes", "dead letters", "unroutable", "sagas", "schedules", "scheduled", "transactions", "vacuum", "anything else",
	} {
		_, section := ops.PlaceOf(subject)
		file, anchor, _ := strings.Cut(section, "#")
		text, err := os.ReadFile("../../docs/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for written := range strings.Lines(string(text)) {
			heading, ok := strings.CutPrefix(written, "## ")
			found = found || ok && strings.ReplaceAll(strings.ToLower(strings.TrimSpace(heading)), " ", "-") == anchor
		}
		if !found {
			t.Errorf("%s: there is no section %s", subject, section)
		}
	}
}
