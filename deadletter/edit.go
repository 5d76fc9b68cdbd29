package deadletter

import "github.com/waybill-go/waybill"

// Edit says what to change in the copy of a message. Nil fields stay as they are.
type Edit struct {
	Payload     *[]byte
	ContentType *string
	DataSchema  *string
	Type        *string
	Headers     *map[string]string
	Topic       *string // for one that has a topic
	To          *string // for one that has one destination instead
}

// Apply returns a copy of m with the changes and the given id, caused by m. The error names
// the field that is not valid.
func (e Edit) Apply(m *waybill.Message, id string) (waybill.Message, error) {
	edited := m.Clone()
	edited.ID, edited.CausationID, edited.IdempotencyKey = id, m.ID, ""
	set(&edited.ContentType, e.ContentType)
	set(&edited.DataSchema, e.DataSchema)
	set(&edited.Type, e.Type)
	set(&edited.Topic, e.Topic)
	set(&edited.To, e.To)
	set(&edited.Payload, e.Payload)
	set(&edited.Headers, e.Headers)
	edited.Complete()
	return edited, edited.Validate()
}

func set[V any](field *V, value *V) {
	if value != nil {
		*field = *value
	}
}
