package cli

import (
	"database/sql"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/broker/redisbroker"
	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/store/pgstore"
)

// nowhere is an address at which nothing answers.
const nowhere = "127.0.0.1:1"

// part is a part of the library that options configure: how they do, what the library makes of a
// configuration, and the path of fields to the settings that it uses.
type part struct {
	of   func(*config.Config) any
	open func(t *testing.T, cfg any) (any, error)
	path []string
}

var parts = map[string]part{
	"relay": {
		func(c *config.Config) any { return relayConfig(c) },
		func(_ *testing.T, cfg any) (any, error) {
			return relay.New(memstore.New(), membroker.New().Publisher(), cfg.(relay.Config))
		},
		[]string{"cfg"},
	},
	"retry": {
		func(c *config.Config) any { return relayConfig(c).Retry },
		func(_ *testing.T, cfg any) (any, error) { return backoff.WithDefaults(cfg.(waybill.RetryPolicy)) },
		nil,
	},
	"janitor": {
		func(c *config.Config) any { return janitorConfig(c) },
		func(_ *testing.T, cfg any) (any, error) { return janitor.New(memstore.New(), cfg.(janitor.Config)) },
		[]string{"cfg"},
	},
	"schedules": {
		func(c *config.Config) any {
			return schedule.RunnerConfig{PollInterval: c.Duration("schedule.poll_interval"), BatchSize: c.Int("schedule.batch_size")}
		},
		func(_ *testing.T, cfg any) (any, error) {
			return schedule.NewRunner(memstore.New(), cfg.(schedule.RunnerConfig))
		},
		[]string{"cfg"},
	},
	"inbox service": {
		func(c *config.Config) any { return inboxhttp.Config{DefaultLease: c.Duration("inbox.lease")} },
		func(_ *testing.T, cfg any) (any, error) {
			return inboxhttp.NewServer(memstore.New(), cfg.(inboxhttp.Config))
		},
		[]string{"cfg"},
	},
	"discovery": {
		func(c *config.Config) any {
			return discovery.Config{
				Bus: c.String("discovery.bus"), Group: c.String("discovery.group"),
				Timeout: c.Duration("discovery.timeout"), SelectionWindow: c.Duration("discovery.selection_wait"),
			}
		},
		func(_ *testing.T, cfg any) (any, error) {
			c := cfg.(discovery.Config)
			c.Endpoint = "http://" + nowhere
			return discovery.NewFinder(nil, c)
		},
		[]string{"cfg"},
	},
	"postgres": {
		func(c *config.Config) any {
			return pgstore.Config{Schema: c.String("schema"), TablePrefix: c.String("table_prefix")}
		},
		func(_ *testing.T, cfg any) (any, error) { return pgstore.NewSQL(&sql.DB{}, cfg.(pgstore.Config)) },
		[]string{"engine", "names"},
	},
	"webhooks": {
		func(c *config.Config) any { h, _ := webhooksConfig(c); return h },
		func(_ *testing.T, cfg any) (any, error) {
			c := cfg.(httpbroker.Config)
			c.Endpoints = []httpbroker.Endpoint{{Name: "a", URL: "https://example.com/", Secrets: []httpbroker.Secret{httpbroker.NewSecret()}}}
			b, err := httpbroker.New(c)
			if err != nil {
				return nil, err
			}
			return reflect.ValueOf(b).Elem().FieldByName("senders").Index(0), nil
		},
		nil,
	},
	"rabbitmq": {
		func(c *config.Config) any { return brokerAt(c, "", httpbroker.Config{}).RabbitMQ },
		func(t *testing.T, cfg any) (any, error) {
			c := cfg.(rabbitbroker.Config)
			c.URL, c.Log = "amqp://"+nowhere, slog.New(slog.DiscardHandler)
			return opened(t)(rabbitbroker.Open(t.Context(), c))
		},
		[]string{"cfg"},
	},
	"nats": {
		func(c *config.Config) any { return brokerAt(c, "", httpbroker.Config{}).NATS },
		func(t *testing.T, cfg any) (any, error) {
			c := cfg.(natsbroker.Config)
			c.URL, c.Log = "nats://"+nowhere, slog.New(slog.DiscardHandler)
			return opened(t)(natsbroker.Open(t.Context(), c))
		},
		[]string{"cfg"},
	},
	"redis": {
		func(c *config.Config) any { return brokerAt(c, "", httpbroker.Config{}).Redis },
		func(t *testing.T, cfg any) (any, error) {
			c := cfg.(redisbroker.Config)
			c.URL, c.Log = "redis://"+nowhere, slog.New(slog.DiscardHandler)
			return opened(t)(redisbroker.Open(t.Context(), c))
		},
		[]string{"cfg"},
	},
}

func opened(t *testing.T) func(interface{ Close() error }, error) (any, error) {
	return func(b interface{ Close() error }, err error) (any, error) {
		if err == nil {
			t.Cleanup(func() { _ = b.Close() })
		}
		return b, err
	}
}

// setting is a setting of the library.
type setting struct {
	part, field string
	used        string // the field with the value in use, if another
	ownLimits   string // why the limits are those of the option only; "" if the library has them
}

const (
	zeroIsDefault = "where the library takes 0 or less for something else, the option has another way to say it"
	perProgram    = "the library leaves it open"
)

// librarySettings are the settings behind the options; notLibrary are the options that have none.
var librarySettings = map[string]setting{
	"schema":                    {part: "postgres", field: "Schema", used: "schema"},
	"rabbitmq.exchange":         {part: "rabbitmq", field: "Exchange"},
	"nats.stream":               {part: "nats", field: "Stream"},
	"nats.subject_prefix":       {part: "nats", field: "SubjectPrefix"},
	"webhook.timeout":           {part: "webhooks", field: "Timeout", used: "timeout"},
	"redis.prefix":              {part: "redis", field: "Prefix"},
	"redis.replicas":            {part: "redis", field: "Replicas"},
	"redis.keep_for":            {part: "redis", field: "KeepFor"},
	"relay.node":                {part: "relay", field: "Node"},
	"relay.poll_interval":       {part: "relay", field: "PollInterval"},
	"relay.batch_size":          {part: "relay", field: "BatchSize"},
	"relay.max_retries":         {part: "retry", field: "MaxRetries", ownLimits: zeroIsDefault},
	"relay.parallelism":         {part: "relay", field: "Parallelism"},
	"relay.mode":                {part: "relay", field: "Mode"},
	"relay.order":               {part: "relay", field: "Order"},
	"relay.max_parked_messages": {part: "relay", field: "MaxParkedMessages"},
	"relay.max_parked_keys":     {part: "relay", field: "MaxParkedKeys"},
	"relay.lease":               {part: "relay", field: "LeaseTTL", ownLimits: perProgram},
	"relay.publish_timeout":     {part: "relay", field: "PublishTimeout", ownLimits: perProgram},
	"relay.shutdown_grace":      {part: "relay", field: "ShutdownGrace"},
	"retry.base_delay":          {part: "retry", field: "BaseDelay", ownLimits: perProgram},
	"retry.max_delay":           {part: "retry", field: "MaxDelay", ownLimits: perProgram},
	"outbox.retention":          {part: "relay", field: "Retention", ownLimits: zeroIsDefault},
	"inbox.retention":           {part: "janitor", field: "InboxRetention", ownLimits: perProgram},
	"dead_letter.retention":     {part: "janitor", field: "DeadLetterRetention", ownLimits: perProgram},
	"saga.retention":            {part: "janitor", field: "SagaRetention"},
	"audit.retention":           {part: "janitor", field: "AuditRetention", ownLimits: perProgram},
	"inbox.lease":               {part: "inbox service", field: "DefaultLease"},
	"schedule.batch_size":       {part: "schedules", field: "BatchSize", ownLimits: perProgram},
	"discovery.bus":             {part: "discovery", field: "Bus", ownLimits: perProgram},
	"discovery.group":           {part: "discovery", field: "Group", ownLimits: perProgram},
	"discovery.timeout":         {part: "discovery", field: "Timeout", ownLimits: perProgram},
	"discovery.selection_wait":  {part: "discovery", field: "SelectionWindow", ownLimits: perProgram},
	"cleanup.enabled":           {part: "relay", field: "DisableCleanup"},
	"cleanup.interval":          {part: "relay", field: "CleanupInterval"},
	"cleanup.batch_size":        {part: "relay", field: "CleanupBatchSize"},
	"dead_letter.enabled":       {part: "relay", field: "DisableDeadLetters"},
	"schedule.poll_interval":    {part: "schedules", field: "PollInterval", ownLimits: perProgram},
}

var notLibrary = map[string]string{
	"broker_rate":                   "0 is no limit there as here",
	"broker_structured":             "the binary mode is the default there as here",
	"source":                        "is set on each message",
	"rabbitmq.queue_type":           "auto stands for no type",
	"rabbitmq.dead_letter_exchange": "none by default; the server judges the name",
	"kafka.topic_prefix":            "none by default",
	"kafka.create_topics":           "off by default, as any bool",
	"kafka.partitions":              "0 leaves it to the cluster",
	"kafka.replication_factor":      "0 leaves it to the cluster",
	"kafka.instance_id":             "none by default",
	"kafka.transactional_id":        "none by default",
	"relay.record_size":             "in MiB; the library counts bytes (TestRelay_Record)",
	"relay.record_keys":             "off by default, as any bool",
	"push.allow_anonymous":          "only the binary has it",
	"inbox.allow_short_retention":   "off by default, as any bool",
	"dead_letter.replays":           "on by default: DisableReplays",
	"schedule.enabled":              "on by default: DisableSchedules",
	"watch.interval":                "only the binary has it",
	"watch.severity":                "only the binary has it",
	"watch.name":                    "only the binary has it",
	"watch.docs":                    "only the binary has it",
	"watch.mail_from":               "only the binary has it",
	"by":                            "only the binary has it",
	"metrics.allow_public":          "only the binary has it",
	"log.level":                     "only the binary has it",
	"log.format":                    "only the binary has it",
}

// TestOptions_Library: an option that has a default or limits has those of the library.
func TestOptions_Library(t *testing.T) {
	t.Parallel()
	defaults, err := config.Load(nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range config.Options() {
		s, ok := librarySettings[o.Key]
		if _, known := notLibrary[o.Key]; !ok && !known && o.Default+o.Min+o.Max != "" {
			t.Errorf("%s has a default or a limit, and neither a setting of the library nor a reason why there is none", o.Key)
		}
		if !ok {
			continue
		}
		p := parts[s.part]
		byOption := p.of(defaults)
		if o.Default != "" {
			got, want := s.inUse(t, byOption), s.inUse(t, reflect.Zero(reflect.TypeOf(byOption)).Interface())
			if got != want {
				t.Errorf("%s is %s by default, and %s in the library", o.Key, got, want)
			}
		}
		if s.ownLimits == "" {
			s.checkLimit(t, o, byOption, o.Min, -1)
			s.checkLimit(t, o, byOption, o.Max, 1)
		}
	}
}

// inUse returns what the library uses if it is given a configuration.
func (s setting) inUse(t *testing.T, cfg any) string {
	t.Helper()
	made, err := parts[s.part].open(t, cfg)
	if err != nil {
		t.Fatalf("%s: %v", s.part, err)
	}
	v, ok := made.(reflect.Value)
	if !ok {
		v = reflect.ValueOf(made)
	}
	used := s.used
	if used == "" {
		used = s.field
	}
	for _, name := range append(parts[s.part].path, used) {
		if v = reflect.Indirect(v).FieldByName(name); !v.IsValid() {
			t.Fatalf("%s has no field %s", s.part, name)
		}
	}
	return fmt.Sprint(v)
}

// checkLimit checks that the library takes a limit of o and refuses what is one step beyond.
func (s setting) checkLimit(t *testing.T, o config.Option, cfg any, limit string, step int) {
	t.Helper()
	if limit == "" || o.Kind == config.String && step < 0 {
		return
	}
	for _, beyond := range []bool{false, true} {
		c := reflect.New(reflect.TypeOf(cfg)).Elem()
		c.Set(reflect.ValueOf(cfg))
		n := number(t, limit)
		if beyond {
			if n += int64(step); n == 0 {
				n-- // 0 stands for the default
			}
		}
		if f := c.FieldByName(s.field); f.Kind() == reflect.String {
			f.SetString(strings.Repeat("x", int(n)))
		} else {
			f.SetInt(n)
		}
		if _, err := parts[s.part].open(t, c.Interface()); (err != nil) != beyond {
			t.Errorf("%s: the limit of the option is %s; the library says to %v: %v", o.Key, limit, n, err)
		}
	}
}

func number(t *testing.T, written string) int64 {
	t.Helper()
	if n, err := strconv.ParseInt(written, 10, 64); err == nil {
		return n
	}
	d, err := config.ParseDuration(written)
	if err != nil {
		t.Fatal(err)
	}
	return int64(d / time.Nanosecond)
}
