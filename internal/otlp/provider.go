// Package otlp exports spans to an OpenTelemetry collector: OTLP over HTTP in its JSON form, configured by
// the standard environment variables. It does not use the generated code of the protocol, which would add
// some sixty modules.
package otlp

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const stopTimeout = 5 * time.Second

// Start returns a provider whose spans are exported as configured by the environment, for a service called
// name unless the environment names another, and a function that sends pending spans and stops it. The
// provider is nil if the environment requests no export.
func Start(getenv func(string) string, name string, log *slog.Logger) (provider trace.TracerProvider, stop func(), err error) {
	stop = func() {}
	if yes, err := wanted(getenv); !yes || err != nil {
		return nil, stop, err
	}
	s, err := readSettings(getenv)
	if err != nil {
		return nil, stop, err
	}
	of, err := readResource(getenv, name)
	if err != nil {
		return nil, stop, err
	}
	p := sdk.NewTracerProvider(sdk.WithBatcher(newExporter(s, log)), sdk.WithResource(of))
	log.Info("traces are exported", "collector", s.endpoint.Host)
	return p, func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			log.Warn("the last spans were not exported", "error", err)
		}
	}, nil
}

// readResource returns the resource of the spans.
func readResource(getenv func(string) string, name string) (*resource.Resource, error) {
	pairs, err := readPairs(getenv("OTEL_RESOURCE_ATTRIBUTES"))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES %w", err)
	}
	list := []attribute.KeyValue{attribute.String("service.name", name)}
	for _, p := range pairs { // of two with the same name the later wins
		list = append(list, attribute.String(p.key, p.value))
	}
	if own := getenv("OTEL_SERVICE_NAME"); own != "" {
		list = append(list, attribute.String("service.name", own))
	}
	return resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(list...))
}
