package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestProbes(t *testing.T) {
	t.Parallel()
	secret := waybill.UnavailableError(errors.New("dial postgres://app:hunter2@db.internal refused"))
	stalled := func(age time.Duration, err error) error {
		return &waybill.StalledError{Loop: "relay claim", Age: age, Err: err}
	}
	for _, tt := range []struct {
		name        string
		err         error
		ready, live int
		loops       []Loop
		others      int
	}{
		{name: "well", ready: 200, live: 200},
		{name: "never ran", err: stalled(0, nil), ready: 503, live: 200, loops: []Loop{{"relay claim", 0, "stuck"}}},
		{name: "no success for a while", err: stalled(30*time.Second, secret), ready: 503, live: 200, loops: []Loop{{"relay claim", 30, "unavailable"}}},
		{name: "no success for long", err: stalled(DefaultPatience+time.Second, secret), ready: 503, live: 503, loops: []Loop{{"relay claim", 301, "unavailable"}}},
		{
			name: "several, one of them wrapped", err: errors.Join(stalled(time.Second, nil), errors.Join(fmt.Errorf("part: %w", stalled(2*time.Second, secret)), nil)),
			ready: 503, live: 200, loops: []Loop{{"relay claim", 1, "stuck"}, {"relay claim", 2, "unavailable"}},
		},
		{name: "something else", err: secret, ready: 503, live: 200, others: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			check := func() error { return tt.err }
			for i, probe := range []http.Handler{Ready(check), Live(check, DefaultPatience)} {
				want := []int{tt.ready, tt.live}[i]
				w := httptest.NewRecorder()
				probe.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				var got Report
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
					t.Fatal(err)
				}
				if w.Code != want || !reflect.DeepEqual(got.Loops, tt.loops) || got.Others != tt.others || (got.Status == "ok") != (want == 200) {
					t.Errorf("%d, %s; want %d with %+v", w.Code, w.Body, want, tt.loops)
				}
				if strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), "db.internal") {
					t.Errorf("the answer tells of servers: %s", w.Body)
				}
			}
		})
	}
}
