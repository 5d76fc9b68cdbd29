package otelobserve

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/waybill-go/waybill/contract"
)

// WatchLag adds the gauge waybill.consumer.lag: the messages that wait at the broker for each
// consumer, and that none of its replicas holds. Whenever metrics are collected it calls lag,
// which is ConsumerLag of a service.Service, or a function around Lag of consumers. A consumer that
// lag does not return has no value; an error of lag is returned to the collecting reader.
// Unregister ends it. The error of WatchLag is that of the meter provider.
func (o *Observer) WatchLag(lag func(ctx context.Context) (map[string]contract.Lag, error)) (metric.Registration, error) {
	meter := o.cfg.MeterProvider.Meter(scope)
	gauge, err := meter.Int64ObservableGauge("waybill.consumer.lag", metric.WithUnit("{message}"),
		metric.WithDescription("Messages that wait at the broker for a consumer, and that none of its replicas holds."))
	if err != nil {
		return nil, err
	}
	return meter.RegisterCallback(func(ctx context.Context, out metric.Observer) error {
		lags, err := lag(ctx)
		for name, l := range lags {
			out.ObserveInt64(gauge, l.Messages, metric.WithAttributes(
				attribute.String("messaging.system", o.cfg.System), attribute.String("messaging.consumer.group.name", name)))
		}
		return err
	}, gauge)
}
