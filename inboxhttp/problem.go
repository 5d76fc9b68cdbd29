package inboxhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// problem is the body of an answer with a code other than 200, as in RFC 9457.
type problem struct {
	Title        string `json:"title"`
	Status       int    `json:"status"`
	Detail       string `json:"detail,omitempty"`
	RetryAfterMs int64  `json:"retryAfterMs,omitempty"`

	KeyStatus lease.Status `json:"keyStatus,omitempty"` // of a key that was not marked
}

// refusal is the refusal of a request.
type refusal struct {
	code   int
	detail string
	after  time.Duration // until it may be repeated; 0 for no advice

	keyStatus lease.Status // of a key that was not marked
}

func (r *refusal) Error() string { return r.detail }

func refusef(code int, format string, args ...any) *refusal {
	return &refusal{code: code, detail: fmt.Sprintf(format, args...)}
}

// refusalOf returns the refusal for err. The store's error texts are for the observer only.
func refusalOf(err error) *refusal {
	var refused *refusal
	var invalid *waybill.InvalidError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.As(err, &invalid):
		return refusef(http.StatusBadRequest, "%s %s", wireNames.Replace(invalid.Field), invalid.Reason)
	case waybill.IsUnavailable(err), waybill.IsConflict(err), errors.Is(err, context.DeadlineExceeded):
		return &refusal{code: http.StatusServiceUnavailable, detail: "the store does not answer", after: time.Second}
	}
	return refusef(http.StatusInternalServerError, "the server failed; its log says why")
}

// wireNames maps the names of Go fields to those of bodies.
var wireNames = strings.NewReplacer("lease.Request.Key", "key", "lease.Request.Owner", "owner",
	"lease.Request.MaxAttempts", "maxAttempts", "lease.Request.RequestID", "requestId",
	"lease.Request.PayloadHash", "payloadHash", "batch[", "items[", "].Key", "].key")

func (r *refusal) write(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	if r.code == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if r.after > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(r.after.Seconds()))))
	}
	w.WriteHeader(r.code)
	_ = json.NewEncoder(w).Encode(problem{ // a disconnected client needs no answer
		Title: http.StatusText(r.code), Status: r.code, Detail: r.detail, RetryAfterMs: r.after.Milliseconds(), KeyStatus: r.keyStatus,
	})
}
