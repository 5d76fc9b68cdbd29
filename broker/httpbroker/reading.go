package httpbroker

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// readings are the bodies that are being read, the oldest first. Who has sent one is not known before
// its end: so that those who never send the end keep nobody out, the oldest makes room for a newcomer.
type readings struct {
	mu   sync.Mutex
	list []*http.ResponseController
}

// read reads a body, unless it is interrupted.
func (r *readings) read(w http.ResponseWriter, req *http.Request, limit int64) ([]byte, error) {
	c := http.NewResponseController(w)
	r.mu.Lock()
	r.list = append(r.list, c)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = slices.DeleteFunc(r.list, func(other *http.ResponseController) bool { return other == c })
	}()
	return io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
}

// interrupt ends the oldest reading, and returns false if there is none that can be ended.
func (r *readings) interrupt() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.list) > 0 {
		oldest := r.list[0]
		r.list = r.list[1:]
		if oldest.SetReadDeadline(time.Unix(1, 0)) == nil {
			return true
		}
	}
	return false
}
