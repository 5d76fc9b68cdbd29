package httpbroker

import (
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// readings are the bodies that are being read, the oldest first. The sender of one is not
// authenticated before its end. So that senders which never finish keep nobody out, the oldest makes
// room for a new request.
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

// interrupt ends the oldest reading, and returns false if none can be interrupted.
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
