// Package health answers probes of an orchestrator about a relay, a consumer or a service.
//
//	mux.Handle("/health/ready", health.Ready(svc.Health))
//	mux.Handle("/health/live", health.Live(svc.Health, health.DefaultPatience))
//
// Both fail if the last success of a background loop is too long ago, whether or not its goroutine
// still exists. Ready fails at once. Live waits for longer, because a restart helps if this process
// is stuck, but not if a database is down.
//
// The answer is JSON and names each loop with its age. It contains no error texts, which may reveal
// servers and accounts; these are in the log.
package health

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/waybill-go/waybill"
)

// DefaultPatience is how long a loop may be without success before [Live] fails: longer than the
// failover of a database takes.
const DefaultPatience = 5 * time.Minute

// Report is the answer to a probe.
type Report struct {
	Status string `json:"status"`           // "ok" or "failing"
	Loops  []Loop `json:"loops,omitempty"`  // those without a recent success, even if the status is ok
	Others int    `json:"others,omitempty"` // problems that are not about a loop
}

// Loop is a background loop without a recent success.
type Loop struct {
	Name string  `json:"loop"`
	Age  float64 `json:"age_seconds"` // since its last success, or its start; 0 if it never ran
	Kind string  `json:"kind"`        // of its last failure: "stuck" if there is none
}

// Ready returns a handler that answers 200 while check returns nil, and 503 otherwise. check
// is the Health method of a relay, consumer or service, or all of them joined.
func Ready(check func() error) http.Handler {
	return handler(check, func(r *Report) bool { return len(r.Loops) == 0 && r.Others == 0 })
}

// Live returns a handler that answers 200 unless a loop has had no success for longer than
// patience; then 503. Other errors of check do not count.
func Live(check func() error, patience time.Duration) http.Handler {
	return handler(check, func(r *Report) bool {
		for _, l := range r.Loops {
			if l.Age > patience.Seconds() {
				return false
			}
		}
		return true
	})
}

func handler(check func() error, well func(*Report) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r := &Report{Status: "ok"}
		r.add(check())
		status := http.StatusOK
		if !well(r) {
			r.Status, status = "failing", http.StatusServiceUnavailable
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(r) // the client has gone
	})
}

// add adds the loops that err, or an error joined in it, is about.
func (r *Report) add(err error) {
	switch e := err.(type) {
	case nil:
	case *waybill.StalledError:
		r.Loops = append(r.Loops, Loop{Name: e.Loop, Age: e.Age.Seconds(), Kind: kindOf(e.Err)})
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			r.add(err)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			r.add(inner)
			return
		}
		r.Others++
	default:
		r.Others++
	}
}

func kindOf(err error) string {
	if err == nil {
		return "stuck"
	}
	return waybill.KindOf(err).String()
}
