package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestLoad_Defaults(t *testing.T) {
	t.Parallel()
	c, err := Load(nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Duration("relay.poll_interval"), 5*time.Second; got != want {
		t.Errorf("relay.poll_interval = %v, want %v", got, want)
	}
	if got, want := c.Int("relay.batch_size"), 500; got != want {
		t.Errorf("relay.batch_size = %v, want %v", got, want)
	}
	if got, want := c.Duration("outbox.retention"), 7*24*time.Hour; got != want {
		t.Errorf("outbox.retention = %v, want %v", got, want)
	}
	if got, want := c.String("schema"), "waybill"; got != want {
		t.Errorf("schema = %q, want %q", got, want)
	}
	if !c.Bool("dead_letter.enabled") {
		t.Error("dead_letter.enabled = false, want true")
	}
	if got, want := c.Origin("schema"), "default"; got != want {
		t.Errorf("origin of schema = %q, want %q", got, want)
	}
}

func TestLoad_Precedence(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "relay:\n  batch_size: 11\n")
	flag := map[string]string{"relay-batch-size": "33"}
	env := []string{"HOME=/", "WAYBILL_RELAY_BATCH_SIZE=22", FileEnv + "=elsewhere"}
	tests := []struct {
		name   string
		flags  map[string]string
		env    []string
		file   string
		want   int
		origin string
	}{
		{"nothing set", nil, nil, "", 500, "default"},
		{"file over default", nil, nil, file, 11, file + ":2"},
		{"environment over file", nil, env, file, 22, "WAYBILL_RELAY_BATCH_SIZE"},
		{"flag over environment and file", flag, env, file, 33, "--relay-batch-size"},
		{"flag over file", flag, nil, file, 33, "--relay-batch-size"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(tt.flags, tt.env, tt.file)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Int("relay.batch_size"); got != tt.want {
				t.Errorf("Int() = %d, want %d", got, tt.want)
			}
			if got := c.Origin("relay.batch_size"); got != tt.origin {
				t.Errorf("Origin() = %q, want %q", got, tt.origin)
			}
		})
	}
}

// One value on each limit must load, one just outside must be refused by a text that names
// the option, where the value came from, and the limit.
func TestLoad_Limits(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, inside, outside, limit string }{
		{"schema", "s", "", "1"},
		{"schema", strings.Repeat("s", 40), strings.Repeat("s", 41), "40"},
		{"source", strings.Repeat("s", 255), strings.Repeat("s", 256), "255"},
		{"by", strings.Repeat("b", 255), strings.Repeat("b", 256), "255"},
		{"relay.node", strings.Repeat("n", 255), strings.Repeat("n", 256), "255"},
		{"kafka.topic_prefix", strings.Repeat("p", 100), strings.Repeat("p", 101), "100"},
		{"kafka.create_topics", "true", "perhaps", "false"},
		{"broker_rate", "0", "-1", "0"},
		{"broker_rate", "1000000", "1000001", "1000000"},
		{"broker_structured", "true", "perhaps", "false"},
		{"kafka.partitions", "0", "-1", "0"},
		{"kafka.partitions", "1048576", "1048577", "1048576"},
		{"kafka.replication_factor", "0", "-1", "0"},
		{"kafka.replication_factor", "1024", "1025", "1024"},
		{"kafka.instance_id", strings.Repeat("i", 200), strings.Repeat("i", 201), "200"},
		{"kafka.transactional_id", strings.Repeat("t", 100), strings.Repeat("t", 101), "100"},
		{"relay.poll_interval", "10ms", "9ms", "10ms"},
		{"relay.poll_interval", "60s", "61s", "60s"},
		{"relay.batch_size", "1", "0", "1"},
		{"relay.batch_size", "10000", "10001", "10000"},
		{"relay.max_retries", "0", "-1", "0"},
		{"relay.parallelism", "1", "0", "1"},
		{"relay.parallelism", "64", "65", "64"},
		{"relay.mode", "strict", "fast", "pipelined, strict"},
		{"relay.order", "park", "queue", "block, park, skip"},
		{"relay.max_parked_messages", "1", "0", "1"},
		{"relay.max_parked_keys", "1", "0", "1"},
		{"relay.lease", "4001ms", "99ms", "100ms"},
		{"relay.lease", "4001ms", "4s", "relay.lease"},
		{"relay.publish_timeout", "10ms", "9ms", "10ms"},
		{"relay.publish_timeout", "7999ms", "8s", "relay.lease"},
		{"webhook.timeout", "10ms", "9ms", "10ms"},
		{"webhook.timeout", "5m", "6m", "5m"},
		{"relay.shutdown_grace", "0", "-1s", "0"},
		{"relay.record_size", "1", "0", "1"},
		{"relay.record_size", "1024", "1025", "1024"},
		{"relay.record_keys", "true", "sure", "false"},
		{"redis.prefix", strings.Repeat("p", 100), strings.Repeat("p", 101), "100"},
		{"redis.replicas", "0", "-1", "0"},
		{"redis.keep_for", "0", "-1s", "0"},
		{"push.allow_anonymous", "true", "sure", "false"},
		{"watch.interval", "100ms", "99ms", "100ms"},
		{"watch.interval", "1h", "61m", "1h"},
		{"watch.severity", "problem", "note", "warning, problem"},
		{"watch.name", "n", "", "1"},
		{"watch.name", strings.Repeat("n", 100), strings.Repeat("n", 101), "100"},
		{"watch.mail_from", strings.Repeat("m", 255), strings.Repeat("m", 256), "255"},
		{"retry.base_delay", "1ms", "0", "1ms"},
		{"retry.base_delay", "60s", "61s", "retry.max_delay"},
		{"retry.max_delay", "1s", "0", "1ms"},
		{"retry.max_delay", "1s", "999ms", "retry.base_delay"},
		{"outbox.retention", "0", "-1s", "0"},
		{"inbox.retention", "1s", "999ms", "1s"},
		{"inbox.retention", "30d", "31d", "dead_letter.retention"},
		{"inbox.allow_short_retention", "true", "perhaps", "false"},
		{"dead_letter.retention", "7d", "0", "1s"},
		{"dead_letter.retention", "7d", "6d", "inbox.retention"},
		{"saga.retention", "0", "-1s", "0"},
		{"saga.retention", "7d", "6d", "inbox.retention"},
		{"audit.retention", "1s", "999ms", "1s"},
		{"cleanup.enabled", "false", "never", "true"},
		{"metrics.allow_public", "true", "sure", "false"},
		{"cleanup.interval", "1s", "999ms", "1s"},
		{"cleanup.interval", "24h", "25h", "24h"},
		{"cleanup.batch_size", "1", "0", "1"},
		{"cleanup.batch_size", "10000", "10001", "10000"},
		{"dead_letter.enabled", "false", "no", "true"},
		{"dead_letter.replays", "false", "no", "true"},
		{"schedule.enabled", "false", "no", "true"},
		{"schedule.poll_interval", "10ms", "9ms", "10ms"},
		{"schedule.poll_interval", "60s", "61s", "60s"},
		{"schedule.batch_size", "1", "0", "1"},
		{"schedule.batch_size", "10000", "10001", "10000"},
		{"inbox.lease", "30s", "29s", "30s"},
		{"inbox.lease", "120s", "121s", "120s"},
		{"discovery.bus", "b", "", "1"},
		{"discovery.bus", strings.Repeat("b", 255), strings.Repeat("b", 256), "255"},
		{"discovery.group", "g", "", "1"},
		{"discovery.group", strings.Repeat("g", 255), strings.Repeat("g", 256), "255"},
		{"discovery.timeout", "10ms", "9ms", "10ms"},
		{"discovery.timeout", "60s", "61s", "60s"},
		{"discovery.selection_wait", "1ms", "999us", "1ms"},
		{"discovery.selection_wait", "60s", "61s", "60s"},
		{"by", strings.Repeat("b", 255), strings.Repeat("b", 256), "255"},
		{"rabbitmq.queue_type", "classic", "stream", "auto, quorum, classic"},
		{"rabbitmq.dead_letter_exchange", strings.Repeat("d", 255), strings.Repeat("d", 256), "255"},
		{"log.level", "debug", "loud", "debug, info, warn, error"},
		{"log.format", "json", "xml", "text, json"},
	}
	limited := make(map[string]bool)
	for _, tt := range tests {
		limited[tt.key] = true
		t.Run(tt.key+"/"+tt.limit, func(t *testing.T) {
			t.Parallel()
			o, ok := find(func(o Option) bool { return o.Key == tt.key })
			if !ok {
				t.Fatal("no such option")
			}
			if _, err := Load(nil, []string{o.Env() + "=" + tt.inside}, ""); err != nil {
				t.Errorf("%q was refused: %v", tt.inside, err)
			}
			_, err := Load(nil, []string{o.Env() + "=" + tt.outside}, "")
			if err == nil {
				t.Fatalf("%q was accepted", tt.outside)
			}
			for _, part := range []string{tt.key, o.Env(), tt.limit} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not name %q", err, part)
				}
			}
		})
	}
	for _, o := range options {
		if has := o.Kind != String || o.Min != "" || o.Max != "" || o.OneOf != nil; has && !limited[o.Key] {
			t.Errorf("%s has limits without a test", o.Key)
		}
	}
}

func TestLoad_Malformed(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, value, want string }{
		{"relay.batch_size", "many", "not a whole number"},
		{"relay.batch_size", "1.5", "not a whole number"},
		{"relay.batch_size", "99999999999999999999", "too large a number"},
		{"relay.batch_size", "", "not a whole number"},
		{"relay.poll_interval", "5", "not a duration"},
		{"relay.poll_interval", "", "not a duration"},
		{"dead_letter.enabled", "1", "neither true nor false"},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			t.Parallel()
			o, _ := find(func(o Option) bool { return o.Key == tt.key })
			_, err := Load(map[string]string{o.Flag(): tt.value}, nil, "")
			var refused *Error
			if !errors.As(err, &refused) {
				t.Fatalf("Load() = %v, want an *Error", err)
			}
			if refused.Key != tt.key || refused.Origin != "--"+o.Flag() {
				t.Errorf("error is about %s (%s), want %s (--%s)", refused.Key, refused.Origin, tt.key, o.Flag())
			}
			if !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("reason %q does not say %q", refused.Reason, tt.want)
			}
		})
	}
}

func TestLoad_ReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "relay:\n  lanes: 4\n  batch_size: 0\n")
	flags := map[string]string{"lanes": "1", "log-level": "loud"}
	env := []string{"WAYBILL_RELAY_POLL=1s", "WAYBILL_RELAY_POLL_INTERVAL=1h", "WAYBILL=", "MY_WAYBILL_X=1"}
	_, err := Load(flags, env, file)
	if err == nil {
		t.Fatal("Load() = nil, want errors")
	}
	want := []string{
		file + ":2: there is no option relay.lanes",
		"no option has the environment variable WAYBILL_RELAY_POLL",
		"no option has the flag --lanes",
		"relay.poll_interval (WAYBILL_RELAY_POLL_INTERVAL): 1h is out of range, the maximum is 60s",
		"relay.batch_size (" + file + ":3): 0 is out of range, the minimum is 1",
		`log.level (--log-level): "loud" is not one of debug, info, warn, error`,
	}
	if got := strings.Split(err.Error(), "\n"); !slices.Equal(got, want) {
		t.Errorf("Load() reports\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLoad_DefaultInConflict(t *testing.T) {
	t.Parallel()
	_, err := Load(nil, []string{"WAYBILL_RETRY_MAX_DELAY=500ms"}, "")
	want := "retry.base_delay (default): 1s must not be more than retry.max_delay (WAYBILL_RETRY_MAX_DELAY), which is 500ms"
	if err == nil || err.Error() != want {
		t.Errorf("Load() = %v, want %s", err, want)
	}
}

func TestConfig_EachHidesSecrets(t *testing.T) {
	t.Parallel()
	c, err := Load(map[string]string{"store": "postgres://app:hunter2@db/orders"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.String("store"); !strings.Contains(got, "hunter2") {
		t.Errorf("String() = %q, want the password in it", got)
	}
	var keys []string
	c.Each(func(o Option, value, origin string) {
		keys = append(keys, o.Key)
		if strings.Contains(value, "hunter2") {
			t.Errorf("Each() shows the password of %s: %s", o.Key, value)
		}
		if o.Key == "store" && (value != "postgres://app:xxxxx@db/orders" || origin != "--store") {
			t.Errorf("Each() = %s from %s", value, origin)
		}
	})
	if len(keys) != len(options) || keys[0] != options[0].Key {
		t.Errorf("Each() visited %v", keys)
	}
}

func TestConfig_AccessorPanics(t *testing.T) {
	t.Parallel()
	c, err := Load(nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(){
		"unknown key": func() { c.String("relay.lanes") },
		"other kind":  func() { c.Int("relay.poll_interval") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			read()
		}()
	}
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "waybill.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
