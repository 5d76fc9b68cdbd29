package config

import (
	"regexp"
	"strings"
	"testing"
)

func TestOptions_Table(t *testing.T) {
	t.Parallel()
	keyForm := regexp.MustCompile(`^[a-z]+(_[a-z]+)*(\.[a-z]+(_[a-z]+)*)?$`)
	seen := make(map[string]string)
	for _, o := range Options() {
		if !keyForm.MatchString(o.Key) {
			t.Errorf("key %q is not lower-case words joined by '_' with one '.' at most", o.Key)
		}
		if o.Help == "" || strings.HasSuffix(o.Help, ".") {
			t.Errorf("%s: help %q must be one phrase without a full stop", o.Key, o.Help)
		}
		if o.Secret && len(o.OneOf) > 0 {
			t.Errorf("%s: the error would quote a secret", o.Key)
		}
		for _, name := range []string{o.Key, o.Flag(), o.Env()} {
			if other, ok := seen[name]; ok && other != o.Key {
				t.Errorf("%s and %s share the name %s", o.Key, other, name)
			}
			seen[name] = o.Key
		}
		if o.Env() == FileEnv {
			t.Errorf("%s has the environment variable of the file", o.Key)
		}
		for what, written := range map[string]string{"default": o.Default, "minimum": o.Min, "maximum": o.Max} {
			if written == "" || o.Kind == String && what != "default" {
				continue
			}
			if _, err := o.parse(written); err != nil {
				t.Errorf("%s: the %s is refused: %v", o.Key, what, err)
			}
		}
	}
}

func TestOption_Names(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, flag, env string }{
		{"store", "store", "WAYBILL_STORE"},
		{"table_prefix", "table-prefix", "WAYBILL_TABLE_PREFIX"},
		{"relay.poll_interval", "relay-poll-interval", "WAYBILL_RELAY_POLL_INTERVAL"},
	}
	for _, tt := range tests {
		o := Option{Key: tt.key}
		if got := o.Flag(); got != tt.flag {
			t.Errorf("Flag() of %s = %q, want %q", tt.key, got, tt.flag)
		}
		if got := o.Env(); got != tt.env {
			t.Errorf("Env() of %s = %q, want %q", tt.key, got, tt.env)
		}
	}
}

// TestOptions_OlderNames: each setting of the older systems' table that the program uses is an option,
// with that table's default, but for the size of batches: that was 100, and they begin with 100 now.
func TestOptions_OlderNames(t *testing.T) {
	t.Parallel()
	defaults := make(map[string]string)
	for _, o := range Options() {
		defaults[o.Key] = o.Default
	}
	for key, want := range map[string]string{
		"relay.poll_interval": "5s", "relay.batch_size": "500", "relay.max_retries": "5", "relay.parallelism": "4",
		"retry.base_delay": "1s", "retry.max_delay": "60s", "outbox.retention": "7d", "inbox.retention": "7d", "inbox.lease": "60s",
		"dead_letter.enabled": "true", "dead_letter.retention": "30d", "cleanup.enabled": "true", "cleanup.interval": "1h",
		"discovery.timeout": "3s", "discovery.selection_wait": "150ms", "discovery.bus": "rabbit", "discovery.group": "workers",
		"schedule.poll_interval": "2s", "schedule.batch_size": "100",
	} {
		if got, ok := defaults[key]; !ok || got != want {
			t.Errorf("%s is %q, an option: %t, want %q", key, got, ok, want)
		}
	}
}
