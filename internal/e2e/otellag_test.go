package e2e

import (
	"context"
	"errors"
	"maps"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker/membroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/observe/otelobserve"
)

// TestConsumerLagToOpenTelemetry: what waits at the broker for a consumer is collected with its
// name, and what cannot be asked is an error next to it.
func TestConsumerLagToOpenTelemetry(t *testing.T) {
	t.Parallel()
	broker := membroker.New()
	subs := make(map[string]contract.Lagger)
	for _, group := range []string{"billing", "mail"} {
		subs[group] = broker.Subscriber(consumer.Subscription{Group: group, Topics: []string{"orders"}}).(contract.Lagger)
	}
	for range 3 {
		m := waybill.Message{ID: waybill.NewID(), Topic: "orders"}
		m.Complete()
		if err := broker.Publisher().Send(t.Context(), []contract.Outgoing{{Message: &m}})()[0]; err != nil {
			t.Fatal(err)
		}
	}
	away := errors.New("away")
	ask := func(ctx context.Context) (map[string]contract.Lag, error) {
		lags := make(map[string]contract.Lag)
		for group, sub := range subs {
			lag, err := sub.Lag(ctx)
			if err != nil {
				return nil, err
			}
			lags[group] = lag
		}
		return lags, away
	}
	reader := sdkmetric.NewManualReader()
	o, err := otelobserve.New(otelobserve.Config{System: "memory", MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))})
	if err != nil {
		t.Fatal(err)
	}
	registration, err := o.WatchLag(ask)
	if err != nil {
		t.Fatal(err)
	}
	got, err := collectLag(t, reader)
	if want := map[string]int64{"memory billing": 3, "memory mail": 3}; !maps.Equal(got, want) || !errors.Is(err, away) {
		t.Errorf("collected is %v, %v; want %v, and what could not be asked", got, err, want)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got, err := collectLag(t, reader); len(got) != 0 || err != nil {
		t.Errorf("after Unregister: %v, %v", got, err)
	}
}

// collectLag returns the values by system and group.
func collectLag(t *testing.T, reader *sdkmetric.ManualReader) (map[string]int64, error) {
	t.Helper()
	var all metricdata.ResourceMetrics
	err := reader.Collect(t.Context(), &all)
	lags := make(map[string]int64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if data, ok := m.Data.(metricdata.Gauge[int64]); ok && m.Name == "waybill.consumer.lag" {
				for _, p := range data.DataPoints {
					system, _ := p.Attributes.Value("messaging.system")
					group, _ := p.Attributes.Value("messaging.consumer.group.name")
					lags[system.AsString()+" "+group.AsString()] = p.Value
				}
			}
		}
	}
	return lags, err
}
