package mongostore

import (
	"encoding/json"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
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

// rowDoc is a message with the fields that every collection has.
type rowDoc struct {
	Message     messageDoc `bson:"message"`
	MessageID   string     `bson:"message_id"`
	Position    int64      `bson:"position"`
	Lane        int        `bson:"lane"`
	Topic       string     `bson:"topic"` // or destination address
	Key         string     `bson:"key"`
	Destination string     `bson:"destination"`
	EnqueuedAt  time.Time  `bson:"enqueued_at"`
}

func rowOf(r *rows.Row) rowDoc {
	return rowDoc{
		Message: docOf(&r.Message), MessageID: r.Message.ID, Position: r.Position, Lane: r.Lane,
		Topic: r.Message.Address(), Key: r.Message.Key, Destination: r.Destination, EnqueuedAt: r.EnqueuedAt,
	}
}

// row returns the row, which may have been read without its message.
func (d *rowDoc) row() rows.Row {
	r := rows.Row{Message: d.Message.message(), Position: d.Position, Lane: d.Lane, Destination: d.Destination, EnqueuedAt: d.EnqueuedAt}
	r.Message.ID, r.Message.Key = d.MessageID, d.Key
	if r.Message.Address() == "" {
		r.Message.Topic = d.Topic
	}
	return r
}

// readyDoc is a row of the outbox, or a scheduled one.
type readyDoc struct {
	ID  int64  `bson:"_id"` // the position
	Row rowDoc `bson:"row"`
}

func readyOf(r *rows.Row) readyDoc { return readyDoc{r.Position, rowOf(r)} }

func (d *readyDoc) ready() *rows.Row {
	r := d.Row.row()
	r.Position = d.ID
	return &r
}

type waitingDoc struct {
	ID          string               `bson:"_id"` // the place
	Row         rowDoc               `bson:"row"`
	DueAt       *time.Time           `bson:"due_at"`
	Alone       bool                 `bson:"alone"`
	Attempts    int                  `bson:"attempts"`
	Life        int                  `bson:"life"`
	Error       string               `bson:"error"`
	FirstFailed time.Time            `bson:"first_failed_at"`
	Letter      int64                `bson:"letter"`
	Replay      int64                `bson:"replay"`
	History     []deadletter.Attempt `bson:"history"`
}

func waitingOf(w *rows.Waiting) waitingDoc {
	return waitingDoc{
		ID: w.Place().String(), Row: rowOf(&w.Row), DueAt: orNil(w.DueAt), Alone: w.Alone, Attempts: w.Attempts, Life: w.Life,
		Error: w.Error, FirstFailed: w.FirstFailed, Letter: w.Letter, Replay: w.Replay, History: w.History,
	}
}

func (d *waitingDoc) waiting() *rows.Waiting {
	return &rows.Waiting{
		Row: d.Row.row(), DueAt: orZero(d.DueAt), Alone: d.Alone, Attempts: d.Attempts, Life: d.Life,
		Error: d.Error, FirstFailed: d.FirstFailed, Letter: d.Letter, Replay: d.Replay, History: d.History,
	}
}

type archiveDoc struct {
	ID          bson.ObjectID `bson:"_id"`
	Row         rowDoc        `bson:"row"`
	Attempts    int           `bson:"attempts"`
	PublishedAt time.Time     `bson:"published_at"`
}

func archiveOf(a *rows.Archived) archiveDoc {
	id, _ := a.Key.(bson.ObjectID)
	return archiveDoc{ID: id, Row: rowOf(&a.Row), Attempts: a.Attempts, PublishedAt: a.PublishedAt}
}

func (d *archiveDoc) archived() *rows.Archived {
	return &rows.Archived{Key: d.ID, Row: d.Row.row(), Attempts: d.Attempts, PublishedAt: d.PublishedAt}
}

// letterDoc is a dead letter. The message is in the row.
type letterDoc struct {
	ID                int64 `bson:"_id"` // the number
	deadletter.Letter `bson:",inline"`
	Row               rowDoc     `bson:"row"`
	InboxKey          keyDoc     `bson:"inbox_key"` // of a consumer's dead letter
	RequeuedAt        *time.Time `bson:"requeued_at"`
}

func letterOf(l *rows.Letter) letterDoc {
	return letterDoc{ID: l.Number, Letter: l.Letter, Row: rowOf(&l.Row), InboxKey: keyDoc(l.Key), RequeuedAt: orNil(l.RequeuedAt)}
}

func (d *letterDoc) letter() *rows.Letter {
	l := &rows.Letter{Letter: d.Letter, Row: d.Row.row(), Key: inbox.Key(d.InboxKey), RequeuedAt: orZero(d.RequeuedAt)}
	l.Number = d.ID
	return l
}

type entryDoc struct {
	ID               int64 `bson:"_id"` // the number
	deadletter.Entry `bson:",inline"`
}

func (d *entryDoc) entry() *deadletter.Entry {
	d.Number = d.ID
	return &d.Entry
}

type replayDoc struct {
	ID                int64 `bson:"_id"` // the number
	deadletter.Replay `bson:",inline"`
	Passed            int64 `bson:"passed"`
	UpTo              int64 `bson:"up_to"`
}

func (d *replayDoc) replay() *rows.Replay {
	d.Number = d.ID
	return &rows.Replay{Replay: d.Replay, Passed: d.Passed, UpTo: d.UpTo}
}

// identityDoc is an [outbox.Identity]. MongoDB compares such _ids field by field, in this order.
type identityDoc struct {
	ID     string `bson:"id"`
	Source string `bson:"source"`
	Tenant string `bson:"tenant"`
}

func identityOf(id outbox.Identity) identityDoc { return identityDoc{id.ID, id.Source, id.Tenant} }

type idDoc struct {
	ID any       `bson:"_id"` // an identityDoc, or the id alone
	At time.Time `bson:"at"`
}

func idOf(id *rows.ID) idDoc { return idDoc{identityOf(id.Identity), id.At} }

// alone reports whether an id was stored without its source and tenant.
func (d *idDoc) alone() bool {
	_, ok := d.ID.(string)
	return ok
}

func (d *idDoc) id() *rows.ID {
	id := &rows.ID{At: d.At}
	if text, ok := d.ID.(string); ok {
		id.ID = text
	}
	if fields, ok := d.ID.(bson.D); ok {
		for _, f := range fields {
			text, _ := f.Value.(string)
			switch f.Key {
			case "id":
				id.ID = text
			case "source":
				id.Source = text
			case "tenant":
				id.Tenant = text
			}
		}
	}
	return id
}

// keyDoc is an inbox key. MongoDB compares such _ids field by field, in this order.
type keyDoc struct {
	Tenant   string `bson:"tenant"`
	Consumer string `bson:"consumer"`
	Source   string `bson:"source"`
	Alias    string `bson:"alias"`
	Message  string `bson:"message"`
}

func idOfKey(k inbox.Key) any { return keyDoc(k) }

type recordDoc struct {
	Key         keyDoc    `bson:"_id"`
	MessageID   string    `bson:"message_id"`
	Type        string    `bson:"type"`
	PayloadHash string    `bson:"payload_hash"`
	Extra       string    `bson:"extra,omitempty"` // JSON
	Dead        bool      `bson:"dead"`
	ProcessedAt time.Time `bson:"processed_at"`
}

func recordOf(r *rows.Record) recordDoc {
	return recordDoc{
		Key: keyDoc(r.Key), MessageID: r.MessageID, Type: r.Type, PayloadHash: r.PayloadHash, Extra: string(r.Extra),
		Dead: r.Dead, ProcessedAt: r.ProcessedAt,
	}
}

func (d *recordDoc) record() *rows.Record {
	r := &rows.Record{Dead: d.Dead, ProcessedAt: d.ProcessedAt}
	r.Key, r.MessageID, r.Type, r.PayloadHash = inbox.Key(d.Key), d.MessageID, d.Type, d.PayloadHash
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

func attemptOf(a *rows.Attempt) attemptDoc {
	return attemptDoc{keyDoc(a.Key), a.Count, a.DueAt, a.FirstAt, a.History, a.Starts}
}

func (d *attemptDoc) attempt() *rows.Attempt {
	return &rows.Attempt{Key: inbox.Key(d.Key), Count: d.Count, DueAt: d.DueAt, FirstAt: d.FirstAt, History: d.History, Starts: d.Starts}
}

// laneDoc is a lane. Every transaction that relies on the lane increments Changes, so that two of
// them never commit concurrently.
type laneDoc struct {
	ID      int       `bson:"_id"`
	Epoch   int64     `bson:"epoch"`
	Owner   string    `bson:"owner"`
	Since   time.Time `bson:"since"`
	Changes int64     `bson:"changes"`
}

// relayDoc is a relay that has joined, and when its lease ends.
type relayDoc struct {
	Node    string    `bson:"_id"`
	Started time.Time `bson:"started"`
	Until   time.Time `bson:"until"`
	Micros  int64     `bson:"lease_us"` // how long the lease is; 0 if an earlier version has written it
}

func relayOf(r *rows.Relay) relayDoc {
	return relayDoc{r.Node, r.Started, r.Until, r.TTL.Microseconds()}
}

func (d *relayDoc) relay() *rows.Relay {
	return &rows.Relay{Node: d.Node, Started: d.Started, Until: d.Until, TTL: time.Duration(d.Micros) * time.Microsecond}
}

// orNil returns nil for no time.
func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}
