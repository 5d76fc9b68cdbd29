package httpbroker

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// TestSender_Structured: the body is the event, no header has an attribute of it, and each message has
// a webhook-id of its own, the same for each attempt.
func TestSender_Structured(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ids, bodies []string
	url := serving(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		ids, bodies = append(ids, r.Header.Get(HeaderID)), append(bodies, string(body))
		for name := range r.Header {
			if strings.HasPrefix(name, attributePrefix) {
				t.Errorf("header %s in addition to a structured event", name)
			}
		}
		if got := r.Header.Get(contentType); got != "application/cloudevents+json" {
			t.Errorf("content type %q", got)
		}
	})
	for _, b := range []*Broker{
		opened(t, url, func(c *Config) { c.Endpoints[0].Structured = true }),
		opened(t, url, nil), // the relay's destination asks for it
	} {
		a := waybill.Message{ID: "1", Source: "shop", Topic: "t", Payload: []byte(`{"total": 12}`)}
		other := waybill.Message{ID: "2", Source: "shop", Topic: "t", Payload: a.Payload}
		for _, list := range [][]contract.Outgoing{out(a), out(a), out(other)} {
			list[0].Structured = !b.senders[0].endpoint.Structured
			if err := b.Publisher().Send(t.Context(), list)()[0]; err != nil {
				t.Fatal(err)
			}
		}
		mu.Lock()
		if want := `"data":{"total": 12}}`; !strings.HasSuffix(bodies[0], want) {
			t.Errorf("body %s, want it with %s", bodies[0], want)
		}
		if ids[0] != ids[1] || ids[0] == ids[2] || slices.ContainsFunc(ids, func(id string) bool { return !validID(id) }) {
			t.Errorf("ids %v, want one for each message", ids)
		}
		ids, bodies = nil, nil
		mu.Unlock()
	}
}

// TestReceiver_StructuredHeaders: of a structured event of another sender, no header counts that this
// package would write.
func TestReceiver_StructuredHeaders(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"msg_1": "order.placed", ownPrefix + "x": "elsewhere"} {
		h := http.Header{contentType: {"application/cloudevents+json"}, topicHeader: {"elsewhere"}, HeaderID: {id}}
		m, err := decode(h, []byte(`{"specversion":"1.0","id":"1","source":"s","type":"order.placed"}`))
		if err != nil || m.Topic != want {
			t.Errorf("with id %s: topic %q, %v, want %q", id, m.Topic, err, want)
		}
	}
}
