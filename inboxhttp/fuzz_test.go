package inboxhttp

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-go/waybill/inbox/lease"
)

// FuzzBody: whatever is sent is answered or refused, and what reaches the store is exactly the
// key that was sent.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"key":"k","payloadHash":"sha256:a"}`, `{"key":"k","payloadHash":"\u007f"}`,
		`{"key":"k","leaseId":"l","waitSeconds":86400}`, `{"key":"k","leaseId":"l","waitSeconds":-1e-9}`, `{"key":"k","leaseId":"l","waitSeconds":1e308}`, `{"key":"k"}`, `{"key":"\ud83d\ude00"}`, `{"key":"\ud800"}`, `{"key":"\\ud800"}`, `{"items":[{"key":"k"}]}`, `{"key":"k","leaseId":"l"}`, `[`, ``} {
		for path := range posts {
			f.Add(path, []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if _, ok := posts[path]; !ok {
			return
		}
		s := &stub{answer: lease.Answer{Status: lease.Busy}, status: lease.Processed}
		r := send(newServer(t, s, Config{}), "POST", inboxPath+path, string(body))
		if r.StatusCode >= http.StatusInternalServerError {
			t.Fatalf("the answer is %d", r.StatusCode)
		}
		if r.StatusCode != http.StatusOK {
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Error("what is not JSON is taken")
		}
		for _, r := range s.released {
			if r.Validate() != nil {
				t.Errorf("the store is asked to release with %+v", r)
			}
		}
		for _, req := range s.requests {
			if req.Validate() != nil {
				t.Errorf("the store is asked for %+v", req)
			}
			if strings.ContainsRune(req.Key, utf8.RuneError) && !strings.Contains(string(body), "\ufffd") && !strings.Contains(strings.ToLower(string(body)), `\ufffd`) {
				t.Errorf("%q became the key %q", body, req.Key)
			}
		}
	})
}

// FuzzPath: the key of a path is the one that was put into it, however it was escaped.
func FuzzPath(f *testing.F) {
	for _, key := range awkwardKeys {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		s := &stub{}
		request := &http.Request{Method: "GET", URL: &url.URL{Path: inboxPath + key, RawPath: inboxPath + url.PathEscape(key)}, Header: http.Header{}}
		w := httptest.NewRecorder()
		newServer(t, s, Config{}).ServeHTTP(w, request.WithContext(t.Context()))
		valid := lease.ValidateKey(key) == nil
		switch {
		case valid && (w.Code != http.StatusOK || len(s.keys) != 1 || s.keys[0] != key):
			t.Errorf("key %q is answered with %d and read as %q", key, w.Code, s.keys)
		case !valid && (w.Code != http.StatusBadRequest || len(s.keys) != 0):
			t.Errorf("key %q is answered with %d and read as %q", key, w.Code, s.keys)
		}
	})
}
