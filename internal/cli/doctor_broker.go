package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// checkBroker opens the broker and has it confirm something. What is missing there is not
// created. The error is about the configuration.
func (e examination) checkBroker(ctx context.Context) ([]finding, error) {
	if e.cfg.String("broker") == "" {
		return []finding{noting("broker", "not checked, none is set", "give --broker")}, nil
	}
	open, address, err := openBrokerAsIs(ctx, e.cfg)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{failing("broker", err.Error(), "start it, or correct --broker")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer open.Close()
	if missing := lacks(ctx, open); missing != "" {
		return []finding{noting("broker", address+" answers, and has no "+missing+" yet",
			"a relay makes it when it starts, or: waybill topology apply --topic TOPIC")}, nil
	}
	if err := open.Ping(ctx); err != nil {
		return []finding{failing("broker", address+": "+err.Error(), "see the broker's log")}, nil
	}
	findings := []finding{passing("broker", address+" answers and confirms")}
	if e.probe {
		findings = append(findings, probe(ctx, open, opener.BrokerKind(e.cfg.String("broker"))))
	}
	return findings, nil
}

// lacks names what every message needs at the broker and does not exist yet, "" if nothing is
// missing or if the broker does not report it.
func lacks(ctx context.Context, open opener.Broker) string {
	t, is := open.(broker.Topology)
	if !is {
		return ""
	}
	steps, err := t.Plan(ctx, broker.Wanted{})
	if err != nil { // Ping says what is wrong
		return ""
	}
	for _, s := range steps {
		if s.Action == broker.Create {
			return s.Kind + " " + s.Name
		}
	}
	return ""
}

// probeSource is the source of the message that the doctor publishes.
const probeSource = "waybill-doctor"

// probe publishes a message to a topic that nobody knows, as a relay does. A broker that does
// not report it as unroutable would not report a misspelt topic either.
func probe(ctx context.Context, open opener.Broker, kind string) finding {
	ctx, cancel := context.WithTimeout(ctx, opener.Timeout)
	defer cancel()
	m := waybill.Message{ID: waybill.NewID(), Source: probeSource, Topic: "waybill-doctor-" + strings.ToLower(waybill.NewID()[24:])}
	m.Complete()
	err := open.Publisher().Send(ctx, []contract.Outgoing{{Message: &m, DedupID: m.ID}})()[0]
	switch {
	case err == nil && kind == opener.NATS:
		return passing("probe", "confirmed; the stream keeps it under the topic "+m.Topic)
	case err == nil:
		return warning("probe", "a message to the topic "+m.Topic+", which nobody knows, was taken",
			"a binding with # or an alternate exchange takes everything: a topic that is misspelt will not come back")
	case waybill.ReasonOf(err) == waybill.ReasonUnroutable:
		return passing("probe", "a message to a topic that nobody knows came back")
	}
	return failing("probe", err.Error(), "see the broker's log, and the rights of its user")
}
