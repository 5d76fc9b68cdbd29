package cli

import (
	"log/slog"
	"strings"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/otlp"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/observe/otelobserve"
)

// observer returns an observer that logs, passes events to those of the list and, if the environment asks for
// traces, exports spans of a service with the given name. The broker is that of the URL. The returned function sends
// the last spans. Failures to export traces are logged; messages are not affected.
func (p *program) observer(logger *slog.Logger, name, broker string, list ...observe.Observer) (observer observe.Observer, stop func()) {
	list = append([]observe.Observer{observe.LogTo(logger)}, list...)
	provider, stop, err := otlp.Start(p.getenv, name, logger)
	if err == nil && provider != nil {
		var traces *otelobserve.Observer
		if traces, err = otelobserve.New(otelobserve.Config{System: systemOf(broker), TracerProvider: provider}); err == nil {
			list = append(list, traces)
		}
	}
	if err != nil {
		logger.Warn("traces are not exported", "error", err)
	}
	return observe.Observers(list...), stop
}

// systemOf returns OpenTelemetry's name for a broker, by its URL.
func systemOf(broker string) string {
	if kind := opener.BrokerKind(broker); kind != opener.ServiceBus {
		return strings.ToLower(kind)
	}
	return "servicebus"
}

// getenv returns a variable of the program's environment, "" if it is not set.
func (p *program) getenv(name string) string {
	for _, entry := range p.env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
