package cli

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill/internal/config"
)

// TestOpenTarget: the broker, each route and each webhook have a rate and a content mode of their own.
func TestOpenTarget(t *testing.T) {
	t.Parallel()
	// Opening a webhook asks no server.
	webhook := "https://shop.example/hook"
	secret := "webhook.secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
	for name, c := range map[string]struct {
		file string
		want map[string]float64 // below 0: structured
	}{
		"one broker": {"broker_rate: 50", map[string]float64{"": 50}},
		"routes": {"broker_rate: 50\nroutes:\n  - {name: a, broker: \"" + webhook + "/a\", topics: [a], rate: 0.5}\n" +
			"  - {name: b, broker: \"" + webhook + "/b\", topics: [b]}\n  - {name: c, broker: \"" + webhook + "/a\", topics: [c], rate: 1, structured: true}",
			map[string]float64{"a": 0.5, "b": 0, "c": -1, config.DefaultRoute: 50}},
		"one broker, structured": {"broker_rate: 50\nbroker_structured: true", map[string]float64{"": -50}},
		"webhooks": {"broker_rate: 50\nbroker_structured: true\nwebhooks:\n  - {name: a, url: \"" + webhook + "\", rate: 2, structured: true, secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}",
			map[string]float64{"a": -2, config.DefaultRoute: -50}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "waybill.yaml")
			if err := os.WriteFile(file, []byte(secret+c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(map[string]string{"broker": webhook}, nil, file)
			if err != nil {
				t.Fatal(err)
			}
			to, err := openTarget(t.Context(), cfg, slog.Default())
			if err != nil {
				t.Fatal(err)
			}
			defer to.close()
			got := make(map[string]float64)
			for _, d := range to.destinations {
				if got[d.Name] = d.Rate; d.Structured {
					got[d.Name] = -d.Rate
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("rates are %v, want %v, below 0 where structured", got, c.want)
			}
		})
	}
}
