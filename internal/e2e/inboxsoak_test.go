package e2e

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
)

// The soak of the inbox service: a number of clients at full load, over keys that they give back.
const (
	soakClients = 16
	soakKeys    = 50 // of each client
)

// TestInboxServiceSoak: at full load memory and goroutines do not grow. It takes 15 minutes in
// a soak, and a few seconds otherwise.
//
//test:soak-memory
func TestInboxServiceSoak(t *testing.T) {
	t.Parallel()
	d := 3 * time.Second
	if soaking() {
		d = 15 * time.Minute
	}
	p := startInbox(t, "", append(onRedis(), "--log-level", "info", "--metrics-listen", "127.0.0.1:0")...)
	metrics, _ := p.record(t, "metrics and health are served")["address"].(string)
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var requests, failures atomic.Int64
	var all sync.WaitGroup
	for i := range soakClients {
		all.Go(func() { soakInbox(ctx, p.client(t, ""), fmt.Sprintf("client %d", i), &requests, &failures) })
	}
	<-time.After(d / 3) // connections are made, buffers have their size
	warm := readUsage(t, metrics)
	<-ctx.Done()
	atEnd := readUsage(t, metrics)
	all.Wait()
	t.Logf("%d requests in %v, %d failed; after a third of it %+v, in the end %+v", requests.Load(), d, failures.Load(), warm, atEnd)
	if failures.Load() > 0 || requests.Load() == 0 {
		t.Errorf("%d of %d requests failed", failures.Load(), requests.Load())
	}
	if atEnd.goroutines > warm.goroutines+soakClients {
		t.Errorf("goroutines grew from %.0f to %.0f", warm.goroutines, atEnd.goroutines)
	}
	if atEnd.heap > warm.heap*1.5+16<<20 || atEnd.resident > warm.resident*1.25+32<<20 {
		t.Errorf("memory grew from %.0f and %.0f to %.0f and %.0f bytes", warm.heap, warm.resident, atEnd.heap, atEnd.resident)
	}
}

// soakInbox begins, renews, reads and releases until ctx is done, one by one and in batches.
func soakInbox(ctx context.Context, c *inboxhttp.Client, name string, requests, failures *atomic.Int64) {
	count := func(err error) {
		requests.Add(1)
		if err != nil && ctx.Err() == nil {
			failures.Add(1)
		}
	}
	for ctx.Err() == nil {
		reqs := make([]lease.Request, soakKeys)
		for i := range reqs {
			reqs[i] = lease.Request{Key: fmt.Sprintf("%s:%d", name, i), Owner: name, TTL: time.Minute}
		}
		one, err := c.TryBegin(ctx, reqs[0])
		count(err)
		held := lease.Lease{Key: reqs[0].Key, ID: one.LeaseID}
		_, err = c.RenewLease(ctx, held, time.Minute)
		count(err)
		_, err = c.ReadLease(ctx, held.Key)
		count(err)
		release(ctx, c, held, count)
		answers, err := c.TryBeginAll(ctx, reqs)
		count(err)
		for i, a := range answers {
			release(ctx, c, lease.Lease{Key: reqs[i].Key, ID: a.LeaseID}, count)
		}
	}
}

func release(ctx context.Context, c *inboxhttp.Client, l lease.Lease, count func(error)) {
	status, err := c.ReleaseLease(ctx, l, lease.Release{Uncounted: true})
	if err == nil && status != lease.Released {
		err = waybill.PermanentError(waybill.ReasonRejected, fmt.Errorf("released is %s", status))
	}
	count(err)
}

// usage is what a process uses.
type usage struct{ goroutines, heap, resident float64 }

var usageMetric = regexp.MustCompile(`(?m)^(go_goroutines|go_memstats_heap_inuse_bytes|process_resident_memory_bytes) (\S+)$`)

func readUsage(t *testing.T, address string) usage {
	t.Helper()
	r, err := httpClient.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, m := range usageMetric.FindAllStringSubmatch(string(text), -1) {
		if values[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			t.Fatal(err)
		}
	}
	u := usage{values["go_goroutines"], values["go_memstats_heap_inuse_bytes"], values["process_resident_memory_bytes"]}
	if u.goroutines == 0 || u.heap == 0 || u.resident == 0 {
		t.Fatalf("the metrics are %+v", values)
	}
	return u
}
