package discovery

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// listener is a transport that fails some times before it listens.
type listener struct {
	script
	errs      []error // of Listen, one after the other
	announced []string
	answer    func(string, []byte) []byte
}

func (l *listener) Listen(ctx context.Context, bus, group string, announcement []byte, answer func(string, []byte) []byte) error {
	l.announced = append(l.announced, bus+" "+group+" "+string(announcement))
	l.answer = answer
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return err
	}
	<-ctx.Done()
	return nil
}

var service = Endpoint{Name: "inbox-1", URL: "https://a.example.com", Auth: AuthBearer}

func newAnnouncer(t *testing.T, tr Transport) *Announcer {
	t.Helper()
	a, err := NewAnnouncer(tr, AnnouncerConfig{Endpoint: service, Bus: "rabbit", Group: "orders.billing", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAnnouncer_Run: it announces when it starts, and again when the broker is back.
func TestAnnouncer_Run(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := waybill.UnavailableError(errors.New("connection lost"))
		tr := &listener{errs: []error{gone, gone}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := newAnnouncer(t, tr).Run(ctx); err != nil {
			t.Errorf("Run() = %v, want nil at the end of its context", err)
		}
		if len(tr.announced) != 3 {
			t.Fatalf("announced %d times, want 3", len(tr.announced))
		}
		for _, text := range tr.announced {
			if !strings.HasPrefix(text, "rabbit orders%2Ebilling {") || !strings.Contains(text, `"correlationId":""`) {
				t.Errorf("announced %s", text)
			}
		}
	})
}

func TestAnnouncer_RunRefused(t *testing.T) {
	t.Parallel()
	refused := waybill.PermanentError(waybill.ReasonRejected, errors.New("exchange of another type"))
	if err := newAnnouncer(t, &listener{errs: []error{refused}}).Run(t.Context()); !errors.Is(err, refused) {
		t.Errorf("Run() = %v, want %v", err, refused)
	}
}

func TestAnnouncer_Answer(t *testing.T) {
	t.Parallel()
	a := newAnnouncer(t, &listener{})
	for _, tc := range []struct {
		name, id, ping string
		want           bool
	}{
		{"a question", "id", `{"kind":"inbox","name":"client","version":"v1"}`, true},
		{"about something else", "id", `{"kind":"outbox","version":"v1"}`, false},
		{"of another version", "id", `{"kind":"inbox","version":"v2"}`, false},
		{"not JSON", "id", `?`, false},
		{"without a correlation id", "", `{"kind":"inbox","version":"v1"}`, false},
		{"with an endless correlation id", strings.Repeat("i", 256), `{"kind":"inbox","version":"v1"}`, false},
		{"too large", "id", `{"kind":"inbox","version":"v1","x":"` + strings.Repeat("x", maxBodyLen) + `"}`, false},
	} {
		body := a.answer(tc.id, []byte(tc.ping))
		if (body != nil) != tc.want {
			t.Errorf("%s: answered %s", tc.name, body)
		}
		if !tc.want {
			continue
		}
		var got announcement
		if err := json.Unmarshal(body, &got); err != nil || got.CorrelationID != tc.id || got.Endpoint.URL != service.URL {
			t.Errorf("%s: answered %s, %v", tc.name, body, err)
		}
	}
}

func TestAnnouncerConfigRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*Endpoint)) AnnouncerConfig {
		e := service
		change(&e)
		return AnnouncerConfig{Endpoint: e}
	}
	for _, tc := range []struct {
		field string
		cfg   AnnouncerConfig
	}{
		{"Endpoint.Name", with(func(e *Endpoint) { e.Name = "" })},
		{"Endpoint.Name", with(func(e *Endpoint) { e.Name = strings.Repeat("n", 256) })},
		{"Endpoint.URL", with(func(e *Endpoint) { e.URL = "" })},
		{"Endpoint.URL", with(func(e *Endpoint) { e.URL = "https://user:hunter2@a.example.com" })},
		{"Endpoint.URL", with(func(e *Endpoint) { e.URL = "https://a.example.com/?token=hunter2" })},
		{"Endpoint.URL", with(func(e *Endpoint) { e.URL = "https://" + strings.Repeat("a", 2050) })},
		{"Endpoint.Auth", with(func(e *Endpoint) { e.Auth = "hunter2" })},
		{"Endpoint.LeaseDefault", with(func(e *Endpoint) { e.LeaseDefault = 1500 * time.Millisecond })},
		{"Endpoint.RetentionDays", with(func(e *Endpoint) { e.RetentionDays = 36_501 })},
		{"AnnouncerConfig.Endpoint", with(func(e *Endpoint) { e.Name = "Bearer hunter2" })},
		{"AnnouncerConfig.Group", AnnouncerConfig{Endpoint: service, Group: strings.Repeat("g", 91)}},
		{"AnnouncerConfig.Bus", AnnouncerConfig{Endpoint: service, Bus: strings.Repeat("b", 91)}},
		{"AnnouncerConfig.SigningKey", AnnouncerConfig{Endpoint: service, SigningKey: make(ed25519.PrivateKey, 3)}},
	} {
		_, err := NewAnnouncer(&listener{}, tc.cfg)
		wantInvalid(t, err, tc.field)
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error quotes what it should not: %v", err)
		}
	}
	_, err := NewAnnouncer(nil, AnnouncerConfig{Endpoint: service})
	wantInvalid(t, err, "Transport")
}
