package promobserve

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/observe"
)

// described returns the labels of every metric by its name.
func described(t *testing.T) map[string][]string {
	t.Helper()
	ch := make(chan *prometheus.Desc, 1000)
	New(Config{}).Describe(ch)
	NewCollector(CollectorConfig{}).Describe(ch)
	close(ch)
	found := make(map[string][]string)
	form := regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)
	for d := range ch {
		parts := form.FindStringSubmatch(d.String())
		if parts == nil {
			t.Fatalf("%s has no name", d)
		}
		found[parts[1]] = slices.DeleteFunc(strings.Split(parts[2], ","), func(s string) bool { return s == "" })
	}
	return found
}

// TestDocumented holds docs/metrics.md and the metrics together: the same names, and the same
// labels in the same order.
func TestDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		if name := strings.Trim(cells[0], "`"); len(cells) == 4 && strings.HasPrefix(name, "waybill_") {
			labels := strings.FieldsFunc(cells[2], func(r rune) bool { return strings.ContainsRune("`, –", r) })
			documented[name] = labels
		}
	}
	got := described(t)
	for name, labels := range got {
		want, ok := documented[name]
		if !ok || !slices.Equal(labels, want) {
			t.Errorf("%s has the labels %q, documented are %q (%v)", name, labels, want, ok)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("%s is documented, and no metric", name)
	}
	if len(got) < 40 {
		t.Errorf("only %d metrics were found", len(got))
	}
}

func TestLimited(t *testing.T) {
	t.Parallel()
	o := New(Config{MaxLabelValues: 2})
	for i := range 5 {
		o.Observe(t.Context(), observe.Event{Op: observe.OpEnqueue, Topic: fmt.Sprint("t", i), Type: "x", Count: 1})
	}
	o.Observe(t.Context(), observe.Event{Op: observe.OpEnqueue, Topic: "t0", Type: "x", Count: 1})
	ch := make(chan prometheus.Metric, 100)
	o.m.enqueued.Collect(ch)
	if len(ch) != 3 {
		t.Errorf("%d series for 5 topics with a limit of 2, want 2 and the others together", len(ch))
	}
	if got := o.topics.value("t9"); got != other {
		t.Errorf("a topic beyond the limit is %q", got)
	}
	if got := o.topics.value(""); got != "" {
		t.Errorf("no topic is %q", got)
	}
}

// The rows of a clean-up are of few kinds, whoever reports it.
func TestCleanedRows(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	for _, name := range []string{"inbox", "audit_log", "relay-1", "relay-2", ""} {
		o.Observe(t.Context(), observe.Event{Op: observe.OpCleanup, Name: name, Count: 1})
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(o.m.cleanedRows)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("Gather() = %v, %v", families, err)
	}
	got := make(map[string]float64)
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	want := map[string]float64{"inbox": 1, "audit_log": 1, "outbox_archive": 3, "dead_letters": 0, "sagas": 0, "consumer_attempts": 0, "inbox_leases": 0, "idempotency_responses": 0}
	if !maps.Equal(got, want) {
		t.Errorf("removed rows = %v, want %v", got, want)
	}
}
