package cli

import (
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/relay"
)

// notOptions are the fields of relay.Config that no option sets, and why.
var notOptions = map[string]string{
	"RenewInterval": "follows relay.lease and relay.publish_timeout",
	"Followers":     "are consumers inside a process",
	"TopicOrder":    "is by topic; relay.order says it for all",
	"Observer":      "is the log",
	"Recorder":      "is opened by the command",
}

// TestRelayConfig_EveryField: what code may configure of a relay, its user may set as an option.
func TestRelayConfig_EveryField(t *testing.T) {
	t.Parallel()
	set := map[string]string{
		"relay-node": "n", "relay-poll-interval": "7s", "relay-batch-size": "7", "relay-parallelism": "7", "relay-mode": "strict",
		"relay-lease": "70s", "relay-publish-timeout": "7s", "relay-shutdown-grace": "7s", "relay-max-retries": "7",
		"retry-base-delay": "7s", "retry-max-delay": "70s", "outbox-retention": "70d", "dead-letter-enabled": "false",
		"relay-order": "park", "relay-max-parked-messages": "7", "relay-max-parked-keys": "3",
		"cleanup-enabled": "false", "cleanup-interval": "7h", "cleanup-batch-size": "7",
	}
	changed, plain := relayConfigOf(t, set), relayConfigOf(t, nil)
	for i := range changed.NumField() {
		name := changed.Type().Field(i).Name
		if _, ok := notOptions[name]; !ok && reflect.DeepEqual(changed.Field(i).Interface(), plain.Field(i).Interface()) {
			t.Errorf("no option sets relay.Config.%s", name)
		}
	}
}

func relayConfigOf(t *testing.T, flags map[string]string) reflect.Value {
	t.Helper()
	cfg, err := config.Load(flags, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	return reflect.ValueOf(relayConfig(cfg))
}

func TestRelayConfig_Order(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]relay.OrderPolicy{"": relay.Block, "block": relay.Block, "park": relay.Park, "skip": relay.Skip} {
		flags := map[string]string{"relay-max-parked-messages": "7", "relay-max-parked-keys": "3"}
		if written != "" {
			flags["relay-order"] = written
		}
		cfg, err := config.Load(flags, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if c := relayConfig(cfg); c.Order != want || c.MaxParkedMessages != 7 || c.MaxParkedKeys != 3 {
			t.Errorf("relay.order %q: %v with limits of %d messages, %d keys, want %v, 7, 3", written, c.Order, c.MaxParkedMessages, c.MaxParkedKeys, want)
		}
	}
}

func TestLetterColumns_Parks(t *testing.T) {
	t.Parallel()
	l := deadletter.Letter{Number: 1, Origin: deadletter.FromRelay, Reason: "exhausted", Parks: true, Behind: 12}
	if got := letterListing.row(ops.LetterRowOf(l)); !slices.Contains(got, "exhausted, parks its key with 12 behind") {
		t.Errorf("columns = %q, want what the letter parks", got)
	}
}
