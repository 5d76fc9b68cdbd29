package e2e

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/internal/testtools/faultproxy"
	"github.com/waybill-go/waybill/store/memstore"
)

// TestInboxAnswerLost holds back what the inbox service answers to a try-begin, and cuts the
// connection once the key is leased. The client asks again and has that lease: the key is not
// busy to the one who has it, the attempt counts once, and the server has taken nothing back.
func TestInboxAnswerLost(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	service, err := inboxhttp.NewServer(store, inboxhttp.Config{Observer: quiet})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan int, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		service.ServeHTTP(w, r)
		served <- 1
	}))
	defer server.Close()
	proxy, err := faultproxy.New(t.Context(), server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client, err := inboxhttp.NewClient(inboxhttp.ClientConfig{URL: "http://" + proxy.Addr(), Timeout: unreached})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for what, begin := range map[string]func(ctx context.Context, req lease.Request) (lease.Answer, error){
		"one": client.TryBegin,
		"batch": func(ctx context.Context, req lease.Request) (lease.Answer, error) {
			answers, err := client.TryBeginAll(ctx, []lease.Request{req})
			return append(answers, lease.Answer{})[0], err
		},
	} {
		proxy.StallReplies(true)
		type outcome struct {
			answer lease.Answer
			err    error
		}
		got := make(chan outcome, 1)
		go func() {
			a, err := begin(t.Context(), lease.Request{Key: what, TTL: time.Minute})
			got <- outcome{a, err}
		}()
		<-served
		proxy.Cut()
		proxy.StallReplies(false)
		<-served
		o := <-got
		if o.err != nil || o.answer.Status != lease.Acquired || o.answer.Token != 1 || o.answer.Attempts != 1 {
			t.Errorf("%s: TryBegin() = %+v, %v, want the lease of the lost answer", what, o.answer, o.err)
		}
		status, err := client.MarkProcessed(t.Context(), lease.Lease{Key: what, ID: o.answer.LeaseID, Token: o.answer.Token})
		wantLeaseStatus(t, what, status, err, lease.Processed)
		<-served
	}
}
