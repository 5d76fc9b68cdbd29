package cli

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

var inboxRunning = regexp.MustCompile(`inbox service is running.* url=(\S+)`)

// startInbox runs the inbox service on a free port and returns what it says, with its URL.
func startInbox(t *testing.T, args ...string) (log *lockedBuffer, url string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	log, ended := &lockedBuffer{}, make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"inbox", "--listen", "127.0.0.1:0"}, args...), nil, io.Discard, log)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	waitFor(t, "the inbox service runs", func() bool {
		if found := inboxRunning.FindStringSubmatch(log.String()); found != nil {
			url = found[1]
		}
		return url != "" || len(ended) > 0
	})
	if url == "" {
		t.Fatalf("it has ended: %s", log.String())
	}
	return log, url
}

// TestAnonymous_ThisMachineOnly: a name of somebody else's may lead to this machine (DNS rebinding), and
// a page of another origin may ask it. Who asks nobody for a token refuses both.
func TestAnonymous_ThisMachineOnly(t *testing.T) {
	t.Parallel()
	_, inbox := startInbox(t, "--store", "memory:")
	pushed := startPush(t, []string{"WAYBILL_PUSH_ALLOWED_ORIGINS=https://app.example"}, "--to", "sse://127.0.0.1:0/events", "--allow-anonymous")
	pages := map[string]string{"inbox": inbox + "v1/inbox/k", "push": pushed.url}
	for name, page := range pages {
		for _, tc := range []struct {
			what, host string
			header     map[string]string
			want       int
		}{
			{"itself", "", nil, http.StatusOK},
			{"by name", "localhost:80", nil, http.StatusOK},
			{"a page of its own", "localhost:80", map[string]string{"Origin": "http://localhost:80"}, http.StatusOK},
			{"somebody's name", "rebound.example", nil, http.StatusForbidden},
			{"somebody's name and page", "rebound.example", map[string]string{"Origin": "http://rebound.example"}, http.StatusForbidden},
			{"somebody's page", "", map[string]string{"Origin": "https://evil.example"}, http.StatusForbidden},
			{"a page of none", "", map[string]string{"Origin": "null"}, http.StatusForbidden},
			{"through a proxy", "", map[string]string{"X-Forwarded-For": "10.0.0.7"}, http.StatusForbidden},
			{"an allowed page", "", map[string]string{"Origin": "https://app.example"}, map[string]int{"inbox": http.StatusForbidden, "push": http.StatusOK}[name]},
		} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = tc.host
			for k, v := range tc.header {
				req.Header.Set(k, v)
			}
			res, err := httpClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != tc.want {
				t.Errorf("%s, %s: status %d, want %d", name, tc.what, res.StatusCode, tc.want)
			}
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, inbox+"v1/inbox/mark-processed", strings.NewReader(`{"key":"k","leaseId":"1234567890123456"}`))
	req.Host = "rebound.example"
	req.Header.Set("Content-Type", "application/json")
	if res, err := httpClient.Do(req); err != nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("a mark by somebody's name: %v, %v, want 403", res, err)
	}
}
