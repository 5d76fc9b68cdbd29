package cli

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"github.com/waybill-go/waybill/observe/promobserve"
)

const deployDir = "../../deploy/"

var metricName = regexp.MustCompile(`\bwaybill_[a-z_]+\b`)

// registered returns the names that can be asked for: those of the metrics, and of a
// histogram's series.
func registered() map[string]bool {
	ch := make(chan *prometheus.Desc, 1000)
	promobserve.New(promobserve.Config{}).Describe(ch)
	promobserve.NewCollector(promobserve.CollectorConfig{}).Describe(ch)
	close(ch)
	names := make(map[string]bool)
	for d := range ch {
		name := metricName.FindString(d.String())
		names[name] = true
		if strings.HasSuffix(name, "_seconds") || name == "waybill_claim_messages" {
			names[name+"_bucket"], names[name+"_count"], names[name+"_sum"] = true, true, true
		}
	}
	return names
}

// checkExpression reports metrics that there are not, and brackets that do not close.
func checkExpression(t *testing.T, where, expr string, known map[string]bool) {
	t.Helper()
	names := metricName.FindAllString(expr, -1)
	if len(names) == 0 {
		t.Errorf("%s asks for nothing: %s", where, expr)
	}
	for _, name := range names {
		if !known[name] {
			t.Errorf("%s asks for %s, which is no metric", where, name)
		}
	}
	for _, pair := range []string{"()", "{}", "[]"} {
		if strings.Count(expr, pair[:1]) != strings.Count(expr, pair[1:]) {
			t.Errorf("%s: brackets do not close: %s", where, expr)
		}
	}
}

func readDeploy(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(deployDir + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestDashboard: the dashboard is one that Grafana can import, and asks for metrics that there
// are; every metric is on it.
func TestDashboard(t *testing.T) {
	t.Parallel()
	var dashboard struct {
		Title, UID    string
		SchemaVersion int
		Panels        []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ RefID, Expr string }
		}
	}
	text := readDeploy(t, "grafana/waybill.json")
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.Title == "" || dashboard.UID == "" || dashboard.SchemaVersion < 30 {
		t.Errorf("dashboard %q, uid %q, schema version %d", dashboard.Title, dashboard.UID, dashboard.SchemaVersion)
	}
	known := registered()
	ids := make(map[int]bool)
	for _, p := range dashboard.Panels {
		if ids[p.ID] || p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 {
			t.Errorf("panel %+v has no id or place of its own", p)
		}
		ids[p.ID] = true
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %s shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			checkExpression(t, "panel "+p.Title, target.Expr, known)
		}
	}
	for name := range known {
		base := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_count") || strings.HasSuffix(name, "_sum")
		if !base && !strings.Contains(string(text), name) {
			t.Errorf("%s is on no panel", name)
		}
	}
}

// TestAlertRules: the rules are of Prometheus' form, ask for metrics that there are, and are
// those that docs/metrics.md names with the metric.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(readDeploy(t, "prometheus/alerts.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	docs, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	for _, name := range regexp.MustCompile(`\bWaybill[A-Za-z]+\b`).FindAllString(string(docs), -1) {
		documented[name] = true
	}
	for _, rule := range file.Groups[0].Rules {
		checkExpression(t, rule.Alert, rule.Expr, registered())
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s does not say how bad it is, what it is, and what to do", rule.Alert)
		}
		if !documented[rule.Alert] {
			t.Errorf("%s is in no row of docs/metrics.md", rule.Alert)
		}
		delete(documented, rule.Alert)
		for line := range strings.Lines(string(docs)) {
			if strings.Contains(line, "`"+rule.Alert+"`") && !strings.Contains(rule.Expr, metricName.FindString(line)) {
				t.Errorf("%s does not use %s", rule.Alert, metricName.FindString(line))
			}
		}
	}
	if len(documented) > 0 {
		t.Errorf("documented, and no rules: %q", slices.Sorted(maps.Keys(documented)))
	}
}
