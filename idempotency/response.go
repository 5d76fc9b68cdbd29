package idempotency

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
)

// response is a handler's response, with the payload that it answers.
type response struct {
	Payload string      `json:"payload"` // its hash
	Status  int         `json:"status"`
	Header  http.Header `json:"header"`
	body    []byte
}

var errNotStored = errors.New("idempotency: what is stored is not a response")

// encode returns a line of JSON followed by the body, byte for byte.
func (r response) encode() ([]byte, error) {
	head, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	return append(append(head, '\n'), r.body...), nil
}

func decodeResponse(data []byte) (response, error) {
	head, body, ok := bytes.Cut(data, []byte{'\n'})
	var r response
	if err := json.Unmarshal(head, &r); err != nil || !ok || r.Status < 200 || r.Status > 999 {
		return response{}, errNotStored
	}
	r.body = body
	return r, nil
}

// replay answers a repetition.
func (r response) replay(w http.ResponseWriter) {
	for name, values := range r.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Idempotency-Replayed", "true")
	w.Header().Set("X-Idempotent-Replay", "true")
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.body) // the client has disconnected
}

// recorder buffers a response until send, or until it exceeds the limit.
type recorder struct {
	w      http.ResponseWriter
	limit  int
	header http.Header // as the handler changes it
	fixed  http.Header // as it was when the status was set
	status int         // 0 until it is set
	body   []byte
	sent   bool // further writes go to w
}

func newRecorder(w http.ResponseWriter, limit int) *recorder {
	return &recorder{w: w, limit: limit, header: w.Header().Clone()}
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter]. Informational responses are dropped.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status, r.fixed = status, r.header.Clone()
	}
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if !r.sent && len(r.body)+len(p) <= r.limit {
		r.body = append(r.body, p...)
		return len(p), nil
	}
	r.send()
	return r.w.Write(p)
}

// send writes the buffered response, once.
func (r *recorder) send() {
	if r.sent {
		return
	}
	r.sent = true
	r.WriteHeader(http.StatusOK)
	h := r.w.Header()
	clear(h)
	for name, values := range r.fixed {
		h[name] = values
	}
	r.w.WriteHeader(r.status)
	_, _ = r.w.Write(r.body) // the client has disconnected
}

// whole reports whether the whole response is buffered.
func (r *recorder) whole() bool { return !r.sent }

// response returns the response to store, with only the named headers.
func (r *recorder) response(payload string, headers []string) response {
	kept := make(http.Header)
	for _, name := range headers {
		if values := r.fixed.Values(name); len(values) > 0 {
			kept[http.CanonicalHeaderKey(name)] = values
		}
	}
	return response{Payload: payload, Status: r.status, Header: kept, body: r.body}
}
