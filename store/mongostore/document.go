package mongostore

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/settleplan"
)

// messageDoc is a message. Its times are microseconds since 1970, which MongoDB's own are not
// fine enough for; 0 stands for none.
type messageDoc struct {
	ID             string            `bson:"id"`
	Type           string            `bson:"type"`
	Source         string            `bson:"source"`
	Topic          string            `bson:"topic"`
	To             string            `bson:"to"`
	Key            string            `bson:"key"`
	Subject        string            `bson:"subject,omitempty"`
	Tenant         string            `bson:"tenant"`
	Payload        []byte            `bson:"payload"`
	ContentType    string            `bson:"content_type"`
	DataSchema     string            `bson:"data_schema,omitempty"`
	Headers        map[string]string `bson:"headers,omitempty"`
	CorrelationID  string            `bson:"correlation_id,omitempty"`
	CausationID    string            `bson:"causation_id,omitempty"`
	IdempotencyKey string            `bson:"idempotency_key,omitempty"`
	TraceParent    string            `bson:"trace_parent,omitempty"`
	TraceState     string            `bson:"trace_state,omitempty"`
	Time           int64             `bson:"time"`
	DeliverAt      int64             `bson:"deliver_at"`
	ExpiresAt      int64             `bson:"expires_at"`
}

func docOf(m *waybill.Message) messageDoc {
	return messageDoc{
		ID: m.ID, Type: m.Type, Source: m.Source, Topic: m.Topic, To: m.To, Key: m.Key, Subject: m.Subject, Tenant: m.Tenant,
		Payload: m.Payload, ContentType: m.ContentType, DataSchema: m.DataSchema, Headers: m.Headers,
		CorrelationID: m.CorrelationID, CausationID: m.CausationID, IdempotencyKey: m.IdempotencyKey,
		TraceParent: m.TraceParent, TraceState: m.TraceState,
		Time: micros(m.Time), DeliverAt: micros(m.DeliverAt), ExpiresAt: micros(m.ExpiresAt),
	}
}

func (d *messageDoc) message() waybill.Message {
	return waybill.Message{
		ID: d.ID, Type: d.Type, Source: d.Source, Topic: d.Topic, To: d.To, Key: d.Key, Subject: d.Subject, Tenant: d.Tenant,
		Payload: d.Payload, ContentType: d.ContentType, DataSchema: d.DataSchema, Headers: d.Headers,
		CorrelationID: d.CorrelationID, CausationID: d.CausationID, IdempotencyKey: d.IdempotencyKey,
		TraceParent: d.TraceParent, TraceState: d.TraceState,
		Time: fromMicros(d.Time), DeliverAt: fromMicros(d.DeliverAt), ExpiresAt: fromMicros(d.ExpiresAt),
	}
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Round(time.Microsecond).UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}

// rowDoc is a message with what every place has of it.
type rowDoc struct {
	Message     messageDoc `bson:"message"`
	MessageID   string     `bson:"message_id"`
	Position    int64      `bson:"position"`
	Lane        int        `bson:"lane"`
	Topic       string     `bson:"topic"` // or destination address
	Key         string     `bson:"key"`
	Destination string     `bson:"destination"` // "" if it is not routed yet, or if there is only one
	EnqueuedAt  time.Time  `bson:"enqueued_at"`
}

func rowOf(m *waybill.Message, position int64, now time.Time) rowDoc {
	d := docOf(m)
	if d.Time == 0 {
		d.Time = micros(now)
	}
	return rowDoc{Message: d, MessageID: m.ID, Position: position, Lane: lanehash.Of(m), Topic: m.Address(), Key: m.Key, EnqueuedAt: now}
}

// unit returns what the order of a row is kept by. Its key is empty if there is no order.
func (r *rowDoc) unit() settleplan.Unit {
	return settleplan.Unit{Topic: r.Topic, Key: r.Key, Destination: r.Destination}
}

// readyDoc is a row of the outbox, or a scheduled one.
type readyDoc struct {
	ID  int64  `bson:"_id"` // the position
	Row rowDoc `bson:"row"`
}

// waitingDoc is a row that may not go now. It has no due time if it follows another, or a
// letter that parks its unit. One that is alone has left its unit.
type waitingDoc struct {
	ID          string               `bson:"_id"` // see placeOf
	Row         rowDoc               `bson:"row"`
	DueAt       *time.Time           `bson:"due_at"`
	Alone       bool                 `bson:"alone"`
	Attempts    int                  `bson:"attempts"`
	Life        int                  `bson:"life"`
	Error       string               `bson:"error"`
	FirstFailed time.Time            `bson:"first_failed_at"`
	Letter      int64                `bson:"letter"` // that it was requeued from, 0 if from none
	Replay      int64                `bson:"replay"` // that requeued it, 0 if none did
	History     []deadletter.Attempt `bson:"history"`
}

// waitingOf returns a row that waits for a destination.
func waitingOf(r rowDoc, destination string) waitingDoc {
	r.Destination = destination
	return waitingDoc{ID: placeOf(r.Position, destination), Row: r}
}

// placeOf identifies a waiting row.
func placeOf(position int64, destination string) string {
	return fmt.Sprintf("%d/%s", position, destination)
}

type archiveDoc struct {
	ID          bson.ObjectID `bson:"_id"`
	Row         rowDoc        `bson:"row"`
	Attempts    int           `bson:"attempts"`
	PublishedAt time.Time     `bson:"published_at"`
}

// letterDoc is a dead letter. The message is in the row.
type letterDoc struct {
	ID                int64 `bson:"_id"` // the number
	deadletter.Letter `bson:",inline"`
	Row               rowDoc     `bson:"row"`
	InboxKey          keyDoc     `bson:"inbox_key"` // of a consumer's letter
	RequeuedAt        *time.Time `bson:"requeued_at"`
}

// keyDoc is an inbox key. MongoDB compares such _ids field by field, in this order.
type keyDoc struct {
	Tenant   string `bson:"tenant"`
	Consumer string `bson:"consumer"`
	Source   string `bson:"source"`
	Alias    string `bson:"alias"`
	Message  string `bson:"message"`
}

func (k keyDoc) key() inbox.Key { return inbox.Key(k) }

type recordDoc struct {
	Key         keyDoc    `bson:"_id"`
	MessageID   string    `bson:"message_id"`
	Type        string    `bson:"type"`
	PayloadHash string    `bson:"payload_hash"`
	Extra       string    `bson:"extra,omitempty"` // JSON
	Dead        bool      `bson:"dead"`
	ProcessedAt time.Time `bson:"processed_at"`
}

func recordOf(r inbox.Record, now time.Time) recordDoc {
	return recordDoc{
		Key: keyDoc(r.Key), MessageID: r.MessageID, Type: r.Type, PayloadHash: r.PayloadHash, Extra: string(r.Extra), ProcessedAt: now,
	}
}

func (d *recordDoc) record() inbox.Record {
	r := inbox.Record{Key: d.Key.key(), MessageID: d.MessageID, Type: d.Type, PayloadHash: d.PayloadHash}
	if d.Extra != "" {
		r.Extra = json.RawMessage(d.Extra)
	}
	return r
}

type attemptDoc struct {
	Key     keyDoc               `bson:"_id"`
	Count   int                  `bson:"count"`
	DueAt   time.Time            `bson:"due_at"`
	FirstAt time.Time            `bson:"first_at"`
	History []deadletter.Attempt `bson:"history"`
	Starts  int                  `bson:"starts"`
}

// tried is a history with one more attempt; the second one makes room if it is full.
func tried(history []deadletter.Attempt, now time.Time, node string, took time.Duration, errText string) []deadletter.Attempt {
	if len(history) >= deadletter.MaxHistory {
		history = slices.Delete(history, 1, 2)
	}
	return append(history, deadletter.Attempt{At: now, Node: node, Took: took, Error: errText})
}

func orNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}
