package cli

import (
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill/internal/config"
)

// TestOpenTarget_Rate: the broker and each route have a rate of their own.
func TestOpenTarget_Rate(t *testing.T) {
	t.Parallel()
	// Opening a webhook asks no server.
	webhook := "https://shop.example/hook"
	secret := "webhook.secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"
	for name, c := range map[string]struct {
		file string
		want map[string]float64
	}{
		"one broker": {"broker_rate: 50", map[string]float64{"": 50}},
		"routes": {"broker_rate: 50\nroutes:\n  - {name: a, broker: \"" + webhook + "/a\", topics: [a], rate: 0.5}\n  - {name: b, broker: \"" + webhook + "/b\", topics: [b]}",
			map[string]float64{"a": 0.5, "b": 0, config.DefaultRoute: 50}},
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
				got[d.Name] = d.Rate
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("rates are %v, want %v", got, c.want)
			}
		})
	}
}
