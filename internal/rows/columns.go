package rows

import (
	"time"

	"github.com/waybill-go/waybill/deadletter"
)

// based are the rows of the tables that hold messages.
type based interface{ Base() *Row }

// ofRow are the columns that such tables have in common. A time of a message is a number of microseconds
// since 1970, 0 for none.
type ofRow[V based] struct {
	Position, DeliverAt                                                   Column[V, int64]
	Lane                                                                  Column[V, int]
	Topic, Key, Destination, MessageID, Source, Tenant, Type, Correlation Column[V, string]
	EnqueuedAt                                                            TimeColumn[V]
}

func rowColumns[V based]() ofRow[V] {
	text := func(name string, of func(*Row) string) Column[V, string] {
		return column(name, func(v V) string { return of(v.Base()) })
	}
	return ofRow[V]{
		Position:    column("position", func(v V) int64 { return v.Base().Position }),
		DeliverAt:   column("deliver_at", func(v V) int64 { return micros(v.Base().Message.DeliverAt) }),
		Lane:        column("lane", func(v V) int { return v.Base().Lane }),
		Topic:       text("topic", func(r *Row) string { return r.Message.Address() }),
		Key:         text("key", func(r *Row) string { return r.Message.Key }),
		Destination: text("destination", func(r *Row) string { return r.Destination }),
		MessageID:   text("message_id", func(r *Row) string { return r.Message.ID }),
		Source:      text("source", func(r *Row) string { return r.Message.Source }),
		Tenant:      text("tenant", func(r *Row) string { return r.Message.Tenant }),
		Type:        text("type", func(r *Row) string { return r.Message.Type }),
		Correlation: text("correlation_id", func(r *Row) string { return r.Message.CorrelationID }),
		EnqueuedAt:  TimeColumn[V]{"enqueued_at", func(v V) time.Time { return v.Base().EnqueuedAt }},
	}
}

// The columns of each table.
var (
	ready = rowColumns[*Row]()

	waits = struct {
		ofRow[*Waiting]
		DueAt  TimeColumn[*Waiting]
		Alone  Column[*Waiting, bool]
		Letter Column[*Waiting, int64]
	}{
		rowColumns[*Waiting](),
		TimeColumn[*Waiting]{"due_at", func(w *Waiting) time.Time { return w.DueAt }},
		flag("alone", func(w *Waiting) bool { return w.Alone }),
		column("letter", func(w *Waiting) int64 { return w.Letter }),
	}

	archived = struct {
		ofRow[*Archived]
		PublishedAt TimeColumn[*Archived]
	}{
		rowColumns[*Archived](),
		TimeColumn[*Archived]{"published_at", func(a *Archived) time.Time { return a.PublishedAt }},
	}

	ids = struct{ At TimeColumn[*ID] }{TimeColumn[*ID]{"at", func(id *ID) time.Time { return id.At }}}

	letters = letterColumns{
		rowColumns[*Letter](),
		column("number", func(l *Letter) int64 { return l.Number }),
		column("replay", func(l *Letter) int64 { return l.Replay }),
		column("origin", func(l *Letter) deadletter.Origin { return l.Origin }),
		column("state", func(l *Letter) deadletter.State { return l.State }),
		column("consumer", func(l *Letter) string { return l.Consumer }),
		column("fingerprint", func(l *Letter) string { return l.Fingerprint }),
		column("error", func(l *Letter) string { return l.Error }),
		column("reason", func(l *Letter) string { return string(l.Reason) }),
		flag("parks", func(l *Letter) bool { return l.Parks }),
		flag("requeued", func(l *Letter) bool { return l.Requeued }),
		flag("failed", func(l *Letter) bool { return l.Failed }),
		TimeColumn[*Letter]{"requeued_at", func(l *Letter) time.Time { return l.RequeuedAt }},
		TimeColumn[*Letter]{"last_failed_at", func(l *Letter) time.Time { return l.LastFailed }},
		TimeColumn[*Letter]{"resolved_at", func(l *Letter) time.Time {
			if l.ResolvedAt == nil {
				return time.Time{}
			}
			return *l.ResolvedAt
		}},
	}

	entries = struct {
		Number, Letter, Replay Column[*deadletter.Entry, int64]
		Action                 Column[*deadletter.Entry, deadletter.Action]
		By, MessageID          Column[*deadletter.Entry, string]
		At                     TimeColumn[*deadletter.Entry]
	}{
		column("number", func(e *deadletter.Entry) int64 { return e.Number }),
		column("letter", func(e *deadletter.Entry) int64 { return e.Letter }),
		column("replay", func(e *deadletter.Entry) int64 { return e.Replay }),
		column("action", func(e *deadletter.Entry) deadletter.Action { return e.Action }),
		column("by", func(e *deadletter.Entry) string { return e.By }),
		column("message_id", func(e *deadletter.Entry) string { return e.MessageID }),
		TimeColumn[*deadletter.Entry]{"at", func(e *deadletter.Entry) time.Time { return e.At }},
	}

	replays = struct {
		Number Column[*Replay, int64]
		State  Column[*Replay, deadletter.ReplayState]
	}{
		column("number", func(r *Replay) int64 { return r.Number }),
		column("state", func(r *Replay) deadletter.ReplayState { return r.State }),
	}

	records = struct {
		Tenant, Consumer, Message, MessageID Column[*Record, string]
		Dead                                 Column[*Record, bool]
		ProcessedAt                          TimeColumn[*Record]
	}{
		column("tenant", func(r *Record) string { return r.Tenant }),
		column("consumer", func(r *Record) string { return r.Consumer }),
		column("message", func(r *Record) string { return r.Message }),
		column("message_id", func(r *Record) string { return r.MessageID }),
		flag("dead", func(r *Record) bool { return r.Dead }),
		TimeColumn[*Record]{"processed_at", func(r *Record) time.Time { return r.ProcessedAt }},
	}

	attempts = struct {
		Tenant, Consumer, Message Column[*Attempt, string]
		DueAt                     TimeColumn[*Attempt]
	}{
		column("tenant", func(a *Attempt) string { return a.Key.Tenant }),
		column("consumer", func(a *Attempt) string { return a.Key.Consumer }),
		column("message", func(a *Attempt) string { return a.Key.Message }),
		TimeColumn[*Attempt]{"due_at", func(a *Attempt) time.Time { return a.DueAt }},
	}

	lanes = struct {
		Number Column[*Lane, int]
		Owner  Column[*Lane, string]
	}{
		column("number", func(l *Lane) int { return l.Number }),
		column("owner", func(l *Lane) string { return l.Owner }),
	}
)

type letterColumns struct {
	ofRow[*Letter]
	Number, Replay                    Column[*Letter, int64]
	Origin                            Column[*Letter, deadletter.Origin]
	State                             Column[*Letter, deadletter.State]
	Consumer, Fingerprint, Error, Why Column[*Letter, string]
	Parks, Requeued, Failed           Column[*Letter, bool]
	RequeuedAt, LastFailed, Resolved  TimeColumn[*Letter]
}
