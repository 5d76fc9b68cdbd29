package otelobserve

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// errorOf returns the error of message i of an operation that ended with err.
func errorOf(err error, i int) error {
	var batch observe.BatchError
	if errors.As(err, &batch) && i < len(batch) {
		return batch[i]
	}
	return err
}

// errorType is the value of error.type: "transient", or "permanent: unroutable".
func errorType(err error) string {
	kind := waybill.KindOf(err)
	if kind == waybill.Permanent {
		return kind.String() + ": " + string(waybill.ReasonOf(err))
	}
	return kind.String()
}

// fail sets the status of a span.
func (o *Observer) fail(s trace.Span, err error) {
	description := errorType(err)
	s.SetAttributes(attribute.String("error.type", description))
	if o.cfg.ErrorTexts {
		description = observe.ErrorText(err)
	}
	s.SetStatus(codes.Error, description)
}
