package idempotency

import (
	"encoding/json"
	"net/http"
)

// problem is an RFC 9457 response of the middleware itself.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   string `json:"code"` // for programs; stable
	again  bool   // the request may be repeated unchanged
}

func newProblem(status int, code, detail string) problem {
	return problem{Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

func malformed(err error) problem {
	code := "IDEMPOTENCY_KEY_MALFORMED"
	if err == errMissing {
		code = "IDEMPOTENCY_KEY_MISSING"
	}
	return newProblem(http.StatusBadRequest, code, err.Error())
}

func conflict(status int) problem {
	return newProblem(status, "IDEMPOTENCY_CONFLICT", "the key was used before with another payload")
}

func inProgress() problem {
	p := newProblem(http.StatusConflict, "IDEMPOTENCY_IN_PROGRESS", "a request with the key is in progress")
	p.again = true
	return p
}

func unavailable() problem {
	p := newProblem(http.StatusServiceUnavailable, "IDEMPOTENCY_UNAVAILABLE", "the key cannot be looked up now; the request was not run")
	p.again = true
	return p
}

func unreadable(status int, detail string) problem {
	return newProblem(status, "IDEMPOTENCY_BODY", detail)
}

// write answers a request.
func (p problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen: strings and a number
		body = nil
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	if p.again {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the client has disconnected
}
