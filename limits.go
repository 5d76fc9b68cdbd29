package waybill

import "fmt"

// The limits of a message, in bytes. They are chosen so that a message that passes
// [Message.Validate] fits every broker of the project at its default settings, except where
// docs/limits.md says otherwise: 255 and 200 are AMQP's, 249 is Kafka's.
const (
	MaxIDLen       = 255       // ID, CorrelationID, CausationID, IdempotencyKey
	MaxTypeLen     = 255       // Type
	MaxSourceLen   = 255       // Source
	MaxTopicLen    = 249       // Topic and To
	MaxKeyLen      = 255       // Key
	MaxSubjectLen  = 255       // Subject
	MaxTenantLen   = 64        // Tenant
	MaxConsumerLen = 200       // the name of a consumer
	MaxURILen      = 1024      // ContentType, DataSchema
	MaxTraceLen    = 512       // TraceParent, TraceState
	MaxHeaders     = 64        // number of headers
	MaxHeadersLen  = 12 << 10  // all header names and values together
	MaxPayloadLen  = 960 << 10 // Payload; 64 KiB below the 1 MiB that NATS and Kafka take
)

const maxHeaderNameLen = 64

// InvalidError reports a message or setting that was refused before anything was stored.
// It is permanent: the same input is refused again.
type InvalidError struct {
	Field  string // the field as it is written in Go, such as "Headers[x-user]"
	Reason string // what is wrong and which limit was exceeded; never the value itself
}

func (e *InvalidError) Error() string {
	return fmt.Sprintf("waybill: invalid %s: %s", e.Field, e.Reason)
}

func invalidf(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}
