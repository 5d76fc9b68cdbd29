package consumer

import (
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// quietAfter is how long a subscription that delivers nothing must last to count as working: there
// may be nothing to deliver.
const quietAfter = 30 * time.Second

// reception is the state of receiving.
type reception struct {
	mu      sync.Mutex
	began   time.Time // of the current subscription; zero if there is none
	good    time.Time // when receiving was last known to work
	failure error     // why the last subscription ended; nil once another delivers
}

func (r *reception) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Now()
	if r.good.IsZero() {
		r.good = r.began
	}
}

func (r *reception) delivers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failure = nil
}

func (r *reception) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.works() {
		r.good = time.Now()
	}
	r.began, r.failure = time.Time{}, err
}

// works reports whether receiving works now. The lock is held.
func (r *reception) works() bool {
	return !r.began.IsZero() && (r.failure == nil || time.Since(r.began) > quietAfter)
}

// health returns nil if receiving works, else an error about the loop of the given name.
func (r *reception) health(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.works() {
		return nil
	}
	e := &waybill.StalledError{Loop: name, Err: r.failure}
	if !r.good.IsZero() {
		e.Age = max(time.Since(r.good), 1)
	}
	return e
}
