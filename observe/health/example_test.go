package health_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe/health"
)

// A relay that has not reached its database for a minute is not ready, but it is not restarted yet.
func Example() {
	check := func() error { // as the Health of a relay, a consumer or a service
		return &waybill.StalledError{Loop: "relay claim", Age: time.Minute, Err: waybill.UnavailableError(errors.New("connection refused"))}
	}
	ready, live := httptest.NewRecorder(), httptest.NewRecorder()
	health.Ready(check).ServeHTTP(ready, httptest.NewRequest("GET", "/health/ready", nil))
	health.Live(check, health.DefaultPatience).ServeHTTP(live, httptest.NewRequest("GET", "/health/live", nil))
	fmt.Println(ready.Code, live.Code)
	fmt.Print(ready.Body)
	// Output:
	// 503 200
	// {"status":"failing","loops":[{"loop":"relay claim","age_seconds":60,"kind":"unavailable"}]}
}
