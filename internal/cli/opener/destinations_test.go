package opener

import (
	"errors"
	"slices"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/contract"
)

func TestOpenDestinations(t *testing.T) {
	t.Parallel()
	memory := BrokerConfig{URL: "mem:"}
	d, err := OpenDestinations(t.Context(), DestinationsConfig{
		Routes: []TopicRoute{
			{Name: "orders", Broker: memory, Topics: []broker.Pattern{"order.*"}},
			{Name: "placed", Broker: memory, Topics: []broker.Pattern{"order.placed", "print"}},
		},
		Rest: memory,
		Webhooks: httpbroker.Config{Endpoints: []httpbroker.Endpoint{
			{Name: "hook", URL: "https://acme.example/", Secrets: []httpbroker.Secret{httpbroker.NewSecret()}, Topics: []broker.Pattern{"order.placed", "stock"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, c := range []struct {
		message waybill.Message
		want    []string
	}{
		{waybill.Message{Topic: "order.placed"}, []string{"orders", "placed", "hook"}},
		{waybill.Message{Topic: "order.paid"}, []string{"orders"}},
		{waybill.Message{To: "print"}, []string{"placed"}},
		{waybill.Message{To: "hook"}, []string{"hook"}},
		{waybill.Message{Topic: "stock"}, []string{"broker", "hook"}},
		{waybill.Message{Topic: "other"}, []string{"broker"}},
	} {
		var got []string
		for _, destination := range d.List {
			if destination.Match(&c.message) {
				got = append(got, destination.Name)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s goes to %v, want %v", c.message.Address(), got, c.want)
		}
	}
}

// TestOpenDestinations_Away: a broker that does not answer holds nobody up, and is unavailable.
func TestOpenDestinations_Away(t *testing.T) {
	t.Parallel()
	d, err := OpenDestinations(t.Context(), DestinationsConfig{
		Routes: []TopicRoute{{Name: "away", Broker: BrokerConfig{URL: "nats://127.0.0.1:1"}, Topics: []broker.Pattern{"*"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m := waybill.Message{Topic: "t"}
	errs := d.List[0].Publisher.Send(t.Context(), []contract.Outgoing{{Message: &m}, {Message: &m}})()
	if len(errs) != 2 || !waybill.IsUnavailable(errs[0]) || !waybill.IsUnavailable(errs[1]) {
		t.Errorf("Send() = %v, want both unavailable", errs)
	}
}

func TestOpenDestinations_Refused(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]TopicRoute{
		"unknown scheme": {Broker: BrokerConfig{URL: "ftp://x"}, Topics: []broker.Pattern{"*"}},
		"no topics":      {Broker: BrokerConfig{URL: "mem:"}},
		"no broker":      {Topics: []broker.Pattern{"*"}},
		"bad pattern":    {Broker: BrokerConfig{URL: "mem:"}, Topics: []broker.Pattern{"a*b"}},
	} {
		_, err := OpenDestinations(t.Context(), DestinationsConfig{Routes: []TopicRoute{r}})
		if !errors.Is(err, ErrURL) && !waybill.IsPermanent(err) {
			t.Errorf("%s: OpenDestinations() = %v, want it refused", name, err)
		}
	}
}
