package kafkabroker

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		url       string
		seeds     []string
		encrypted bool
		mechanism string
	}{
		{"kafka://a", []string{"a:9092"}, false, ""},
		{"kafka://a:1,b:2/", []string{"a:1", "b:2"}, false, ""},
		{"kafka://[::1]:9093, 10.0.0.1", []string{"[::1]:9093", "10.0.0.1:9092"}, false, ""},
		{"kafkas://shop:s%40cr:t@a:1,b", []string{"a:1", "b:9092"}, true, "PLAIN"},
		{"kafka://shop:secret@a?sasl=scram-sha-256", []string{"a:9092"}, false, "SCRAM-SHA-256"},
		{"kafkas://shop:s@cret@a?sasl=scram-sha-512", []string{"a:9092"}, true, "SCRAM-SHA-512"},
	} {
		a, err := parseURL(c.url)
		if err != nil || !slices.Equal(a.seeds, c.seeds) || a.encrypted != c.encrypted {
			t.Errorf("parseURL(%q) = %+v, %v", c.url, a, err)
			continue
		}
		if got := ""; a.mechanism != nil {
			if got = a.mechanism.Name(); got != c.mechanism {
				t.Errorf("parseURL(%q): mechanism %s, want %s", c.url, got, c.mechanism)
			}
		} else if c.mechanism != "" {
			t.Errorf("parseURL(%q): no mechanism, want %s", c.url, c.mechanism)
		}
	}
}

func TestConfig_NamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := Config{URL: "kafka://a"}
	if _, err := good.withDefaults(); err != nil {
		t.Fatal(err)
	}
	for field, spoil := range map[string][]func(*Config){
		"URL": {
			func(c *Config) { c.URL = "" },
			func(c *Config) { c.URL = "http://S3CR3T" },
			func(c *Config) { c.URL = "kafka://" },
			func(c *Config) { c.URL = "kafka://a:1,," },
			func(c *Config) { c.URL = "kafka://u:S3CR3T%zz@a" },
			func(c *Config) { c.URL = "kafka://u:S3CR3T@a?sasl=S3CR3T" },
			func(c *Config) { c.URL = "kafka://u:p@a?S3CR3T=1" },
			func(c *Config) { c.URL = "kafka://a?sasl=plain" },
		},
		"TopicPrefix": {
			func(c *Config) { c.TopicPrefix = "a b" },
			func(c *Config) { c.TopicPrefix = strings.Repeat("x", maxPrefixLen+1) },
		},
		"TransactionalID": {
			func(c *Config) { c.TransactionalID = "a b" },
			func(c *Config) { c.TransactionalID = strings.Repeat("x", maxPrefixLen+1) },
		},
		"Partitions":        {func(c *Config) { c.Partitions = -1 }},
		"ReplicationFactor": {func(c *Config) { c.ReplicationFactor = -1 }},
		"Window":            {func(c *Config) { c.Window = -1 }},
		"CommitInterval":    {func(c *Config) { c.CommitInterval = 99 * time.Millisecond }},
		"DrainTimeout":      {func(c *Config) { c.DrainTimeout = 31 * time.Second }},
	} {
		for i, change := range spoil {
			c := good
			change(&c)
			_, err := c.withDefaults()
			var invalid *waybill.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "kafkabroker."+field || strings.Contains(err.Error(), "S3CR3T") {
				t.Errorf("%s, case %d: %v, want an InvalidError for the field that quotes no secret", field, i+1, err)
			}
		}
	}
}
