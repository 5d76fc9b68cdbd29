package cloudevents

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m := waybill.Message{
		ID: "1", Type: "t", Source: "s", Key: "k", Subject: "sub", Tenant: "acme", DataSchema: "d",
		CorrelationID: "co", CausationID: "ca", IdempotencyKey: "i", TraceParent: "tp", TraceState: "ts",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), ExpiresAt: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	var got waybill.Message
	names := 0
	Each(&m, func(name, value string) {
		names++
		if err := Set(&got, name, value); err != nil {
			t.Errorf("Set(%s) = %v", name, err)
		}
	})
	if !reflect.DeepEqual(got, m) {
		t.Errorf("came back as %+v, want %+v", got, m)
	}
	if names != len(fields)+1 {
		t.Errorf("%d attributes were written, want %d and specversion", names, len(fields))
	}
}

func TestSet_RefusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"specversion": "0.3", "time": "yesterday", "expirytime": "17"} {
		var m waybill.Message
		if err := Set(&m, name, value); err == nil {
			t.Errorf("Set(%s, %q) = nil, want an error", name, value)
		}
	}
	var m waybill.Message
	if err := Set(&m, "sampledrate", "30"); err != nil || m.Headers["sampledrate"] != "30" {
		t.Errorf("an unknown attribute is not kept as a header: %v, %v", m.Headers, err)
	}
}

func TestEach_SourceIsNeverEmpty(t *testing.T) {
	t.Parallel()
	found := false
	Each(&waybill.Message{ID: "1", Type: "t"}, func(name, value string) { found = found || name == "source" && value != "" })
	if !found {
		t.Error("the required attribute source is missing")
	}
}

func TestBinding_Prefix(t *testing.T) {
	t.Parallel()
	var got []string
	NewBinding("ce_").Each(&waybill.Message{ID: "1", Type: "t", Source: "s"}, func(name, value string) { got = append(got, name+"="+value) })
	if want := []string{"ce_specversion=1.0", "ce_id=1", "ce_source=s", "ce_type=t"}; !slices.Equal(got, want) {
		t.Errorf("Each() yielded %q, want %q", got, want)
	}
}
