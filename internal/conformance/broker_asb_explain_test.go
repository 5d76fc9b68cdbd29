package conformance

import (
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/asbbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
)

// asbFacts returns the facts about a topic, by setting, without what each means.
func asbFacts(t *testing.T, b *asbbroker.Broker, topic string) map[string]guarantee.Fact {
	t.Helper()
	list, err := b.Explain(t.Context(), topic)
	if err != nil {
		t.Fatalf("Explain() = %v", err)
	}
	facts := make(map[string]guarantee.Fact)
	for _, f := range list {
		if f.Means == "" {
			t.Errorf("%s means nothing", f.Setting)
		}
		f.Means = ""
		facts[f.Setting] = f
	}
	return facts
}

// TestASBBroker_Explain reads back what this package declares.
func TestASBBroker_Explain(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{Sessions: true, DuplicateWindow: time.Hour})
	asbApply(t, b, consumer.Subscription{Group: "g", Topics: []string{"t"}})
	facts := asbFacts(t, b, "t")
	for setting, want := range map[string]string{
		"tier": "Premium", "subscriptions": "g", "MaxDeliveryCount of g": "2000", "LockDuration of g": "16s",
		"DefaultMessageTimeToLive of g": "none", "DeadLetteringOnMessageExpiration of g": "false", "EnablePartitioning": "false",
		"RequiresSession of g": "true", "DuplicateDetectionHistoryTimeWindow": "1h0m0s",
	} {
		if f, told := facts[setting]; f.Value != want || f.Stronger != "" {
			t.Errorf("%s is %+v, told %v, want %q and nothing stronger", setting, f, told, want)
		}
		if f := facts[setting]; f.About == guarantee.Durability && f.Survives != guarantee.NodeLoss {
			t.Errorf("%s survives %v, want the loss of a node", setting, f.Survives)
		}
	}
	if _, err := b.Explain(t.Context(), "nothing"); waybill.ReasonOf(err) != waybill.ReasonUnroutable {
		t.Errorf("Explain() = %v of a topic that is not there, want unroutable", err)
	}
}

// TestASBBroker_ExplainForeign reads what somebody else has set, and says what would be stronger.
func TestASBBroker_ExplainForeign(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{DeclareNothing: true})
	client := a.admin(t)
	_, err := client.CreateTopic(t.Context(), "t", &admin.CreateTopicOptions{Properties: &admin.TopicProperties{
		MaxSizeInMegabytes: new(int32(2048)), MaxMessageSizeInKilobytes: new(int64(1024)),
		EnablePartitioning: new(true), DefaultMessageTimeToLive: new("P2D"),
	}})
	must(t, err)
	if f := asbFacts(t, b, "t")["subscriptions"]; f.Value != "none" || f.Survives != guarantee.Nothing {
		t.Errorf("without a subscription: %+v, want that nothing survives", f)
	}
	for _, name := range []string{"one", "two"} {
		_, err := client.CreateSubscription(t.Context(), "t", name, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			MaxDeliveryCount: new(int32(10)), DefaultMessageTimeToLive: new("P14D"),
			DeadLetteringOnMessageExpiration: new(name == "two"), AutoDeleteOnIdle: new("PT5M"),
		}})
		must(t, err)
	}
	facts := asbFacts(t, b, "t")
	for setting, want := range map[string]string{
		"subscriptions": "one, two", "MaxDeliveryCount of one": "10", "MaxDeliveryCount of two": "10",
		"DefaultMessageTimeToLive of one": "48h0m0s", "DeadLetteringOnMessageExpiration of one": "false", "DeadLetteringOnMessageExpiration of two": "true",
		"AutoDeleteOnIdle of two": "5m0s", "EnablePartitioning": "true", "RequiresSession of one": "false",
		"DuplicateDetectionHistoryTimeWindow": "none", "MaxSizeInMegabytes": "2048", "MaxMessageSizeInKilobytes": "1024",
	} {
		if got := facts[setting].Value; got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	for _, weak := range []string{"MaxDeliveryCount of one", "DefaultMessageTimeToLive of one", "DeadLetteringOnMessageExpiration of one",
		"AutoDeleteOnIdle of one", "EnablePartitioning", "RequiresSession of one", "DuplicateDetectionHistoryTimeWindow"} {
		if facts[weak].Stronger == "" {
			t.Errorf("nothing is stronger than %s: %s", weak, facts[weak].Value)
		}
	}
}

// TestASBBroker_Lag: what is held counts, what waits for a retry does not.
func TestASBBroker_Lag(t *testing.T) {
	t.Parallel()
	a := newFakeASB(t)
	b := a.open(t, asbbroker.Config{})
	s := consumer.Subscription{Group: "g", Topics: []string{"t"}, To: "d"}
	asbApply(t, b, s)
	for _, m := range []waybill.Message{{Topic: "t"}, {Topic: "t"}, {To: "d"}} {
		must(t, asbSend(t, b, m))
	}
	lag := func() int64 {
		t.Helper()
		got, err := b.Subscriber(s).(contract.Lagger).Lag(t.Context())
		must(t, err)
		return got.Messages
	}
	if got := lag(); got != 3 {
		t.Errorf("%d messages wait, want 3", got)
	}
	got := asbReceive(t, b, s, 4)
	for want := int64(2); want >= 0; want-- {
		d, _ := asbNext(t, got)
		must(t, d.Retry(t.Context(), time.Hour))
		if n := lag(); n != want {
			t.Errorf("%d messages wait in addition to those that wait for a retry, want %d", n, want)
		}
	}
	a.fake.Close()
	if _, err := b.Subscriber(s).(contract.Lagger).Lag(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Lag() = %v of a service that is gone, want unavailable", err)
	}
}
