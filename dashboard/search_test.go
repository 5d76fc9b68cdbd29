package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inspect"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		query string
		want  []inspect.Filter
		shows []string // ids
	}{
		{"key=&correlation=&topic=&status=", []inspect.Filter{{}}, []string{"m1", "m2", "m3"}},
		{"status=Waiting&topic=orders", []inspect.Filter{{Status: inspect.Waiting, Topic: "orders"}}, []string{"m2"}},
		{"text=order-1", []inspect.Filter{{Text: "order-1"}}, []string{"m1", "m2", "m3"}},
		{"key=a%26b&correlation=flow-1", []inspect.Filter{{Key: "a&b", CorrelationID: "flow-1"}}, []string{"m1", "m2", "m3"}},
		{"correlation=flow-1&status=any", []inspect.Filter{
			{CorrelationID: "flow-1"}, {Status: inspect.Dead, CorrelationID: "flow-1"}, {Status: inspect.Failed, CorrelationID: "flow-1"},
			{Status: inspect.Discarded, CorrelationID: "flow-1"}, {Status: inspect.Published, CorrelationID: "flow-1"},
		}, []string{"m1", "m2", "m3", "m6", "m5", "m7", "m4"}},
	}
	for _, tt := range tests {
		f := full()
		w := asked{path: "/messages?" + tt.query, token: secrets["reader"]}.send(newDashboard(t, testConfig(t, f)))
		for i := range f.searches {
			if f.searches[i].Limit > messagesOnPage+1 {
				t.Errorf("%s: asks for %d messages, want a bounded list", tt.query, f.searches[i].Limit)
			}
			f.searches[i].Limit = 0
		}
		if w.Code != http.StatusOK || !slices.Equal(f.searches, tt.want) {
			t.Errorf("%s: status %d, asks for %+v, want %+v", tt.query, w.Code, f.searches, tt.want)
		}
		at := 0
		for _, id := range tt.shows {
			i := strings.Index(w.Body.String()[at:], `href="./messages?id=`+id+`">`)
			if i < 0 {
				t.Errorf("%s: no link to %s behind those before it", tt.query, id)
				break
			}
			at += i
		}
	}
}

func TestSearch_Refuses(t *testing.T) {
	t.Parallel()
	f := full()
	d := newDashboard(t, testConfig(t, f))
	for query, want := range map[string]string{
		"status=Lost": "status is", "text=%ff": "text is not UTF-8 text", "status=any": "goes with a key, a correlation id or a text", "status=any&topic=orders": "goes with a key",
		"key=%ff": "key is not UTF-8 text", "correlation=a%00b": "correlation is not UTF-8 text",
	} {
		w := asked{path: "/messages?" + query, token: secrets["reader"]}.send(d)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, want 400 and %q", query, w.Code, want)
		}
	}
	if len(f.searches) > 0 {
		t.Errorf("the store was asked for %+v", f.searches)
	}
}

func TestSearch_IsBounded(t *testing.T) {
	t.Parallel()
	f := full()
	for i := range 500 {
		f.messages = append(f.messages, inspect.MessageState{ID: fmt.Sprintf("more-%d", i), Status: inspect.Pending})
	}
	w := asked{path: "/messages?status=any&key=k", token: secrets["reader"]}.send(newDashboard(t, testConfig(t, f)))
	if n := strings.Count(w.Body.String(), `messages?id=`); n != messagesOnPage || !strings.Contains(w.Body.String(), "there are more") {
		t.Errorf("%d messages are shown, want %d and that there are more", n, messagesOnPage)
	}
}

// TestSearch_TooSlow shows that a search which takes too long says so, and not that the store
// is down.
func TestSearch_TooSlow(t *testing.T) {
	t.Parallel()
	d := newDashboard(t, testConfig(t, full()))
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/messages?status=Published", nil)
	r.Header.Set("Authorization", "Bearer "+secrets["reader"])
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "took too long") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// TestOverview_LeadsToMessages shows that the figures lead to what they count.
func TestOverview_LeadsToMessages(t *testing.T) {
	t.Parallel()
	body := asked{path: "/", token: secrets["reader"]}.send(newDashboard(t, testConfig(t, full()))).Body.String()
	for _, link := range []string{"messages?status=Pending", "messages?status=Waiting", "messages?status=Published", "messages?status=Pending&amp;topic=orders"} {
		if !strings.Contains(body, `href="./`+link+`"`) {
			t.Errorf("no link to %s", link)
		}
	}
}

func TestFlow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	published := func(n int, gap time.Duration) []inspect.MessageState {
		var list []inspect.MessageState
		for i := range n {
			at := now.Add(-time.Duration(i+1) * gap)
			list = append(list, inspect.MessageState{PublishedAt: &at})
		}
		return list
	}
	tests := []struct {
		name   string
		latest []inspect.MessageState
		want   flow
	}{
		{"none is kept", nil, flow{}},
		{"none of late", published(5, 2*time.Minute), flow{0, true}},
		{"few", published(5, time.Second), flow{5, true}},
		{"only those of the last minute", published(100, time.Second), flow{60, true}},
		{"more than are looked at", published(flowSample, 6*time.Millisecond), flow{10_000, true}},
		{"as many as are looked at, longer ago", published(flowSample, time.Second), flow{60, true}},
		{"all at once", published(flowSample, 0), flow{60_000_000, true}},
	}
	for _, tt := range tests {
		if got := flowOf(tt.latest, now); got != tt.want {
			t.Errorf("%s: flowOf() = %+v, want %+v", tt.name, got, tt.want)
		}
	}
	f := full()
	f.messages = published(7, time.Second)
	for i := range f.messages {
		f.messages[i].Status = inspect.Published
	}
	for shown, fake := range map[string]*fake{">7</span> published per minute": f, "": {}} {
		body := asked{path: "/", token: secrets["reader"]}.send(newDashboard(t, testConfig(t, fake))).Body.String()
		if got := strings.Contains(body, cmp.Or(shown, "per minute")); got != (shown != "") {
			t.Errorf("the overview shows the flow: %v, want %q", got, shown)
		}
	}
}
