package mongostore

import (
	"context"
	"maps"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
)

// The fields of the columns that all tables with messages have, and of those of the inbox.
var (
	rowFields = map[string]string{
		"position": "row.position", "lane": "row.lane", "topic": "row.topic", "key": "row.key", "destination": "row.destination",
		"message_id": "row.message_id", "enqueued_at": "row.enqueued_at", "source": "row.message.source", "tenant": "row.message.tenant",
		"type": "row.message.type", "correlation_id": "row.message.correlation_id", "deliver_at": "row.message.deliver_at",
	}
	readyFields   = with(rowFields, "position", "_id")
	waitingFields = with(rowFields, "place", "_id")
	letterFields  = with(rowFields, "number", "_id")
	keyFields     = map[string]string{"tenant": "_id.tenant", "consumer": "_id.consumer", "message": "_id.message"}
	numberFields  = map[string]string{"number": "_id"}
)

// with returns fields with another one for a column.
func with(fields map[string]string, column, field string) map[string]string {
	fields = maps.Clone(fields)
	fields[column] = field
	return fields
}

func same[K any](k K) any { return k }

// newTables returns the tables in the store's collections.
func (s *Store) newTables() rows.Tx {
	ready := func(c *mongo.Collection) *table[int64, rows.Row, readyDoc] {
		return &table[int64, rows.Row, readyDoc]{c, readyFields, same[int64], func(r *rows.Row) int64 { return r.Position }, readyOf, (*readyDoc).ready}
	}
	return rows.Tx{
		Driver:    driver{s},
		Outbox:    ready(s.outbox),
		Scheduled: ready(s.scheduled),
		Waiting: &table[rows.Place, rows.Waiting, waitingDoc]{s.waiting, waitingFields, func(p rows.Place) any { return p.String() },
			(*rows.Waiting).Place, waitingOf, (*waitingDoc).waiting},
		Archive: archive{&table[any, rows.Archived, archiveDoc]{s.archive, rowFields, same[any], func(a *rows.Archived) any { return a.Key }, archiveOf, (*archiveDoc).archived}},
		IDs: ids{&table[outbox.Identity, rows.ID, idDoc]{s.ids, nil, func(id outbox.Identity) any { return identityOf(id) },
			func(id *rows.ID) outbox.Identity { return id.Identity }, idOf, (*idDoc).id}},
		Letters: &table[int64, rows.Letter, letterDoc]{s.letters, letterFields, same[int64], func(l *rows.Letter) int64 { return l.Number }, letterOf, (*letterDoc).letter},
		Audit: &table[int64, deadletter.Entry, entryDoc]{s.audit, numberFields, same[int64], func(e *deadletter.Entry) int64 { return e.Number },
			func(e *deadletter.Entry) entryDoc { return entryDoc{e.Number, *e} }, (*entryDoc).entry},
		Replays: &table[int64, rows.Replay, replayDoc]{s.replays, numberFields, same[int64], func(r *rows.Replay) int64 { return r.Number },
			func(r *rows.Replay) replayDoc { return replayDoc{r.Number, r.Replay, r.Passed, r.UpTo} },
			(*replayDoc).replay},
		Inbox: &table[inbox.Key, rows.Record, recordDoc]{s.inbox, keyFields, idOfKey, func(r *rows.Record) inbox.Key { return r.Key }, recordOf, (*recordDoc).record},
		Attempts: &table[inbox.Key, rows.Attempt, attemptDoc]{s.attempts, keyFields, idOfKey, func(a *rows.Attempt) inbox.Key { return a.Key },
			attemptOf, (*attemptDoc).attempt},
		Relays: &table[string, rows.Relay, relayDoc]{s.relays, nil, same[string], func(r *rows.Relay) string { return r.Node }, relayOf, (*relayDoc).relay},
		Lanes: &table[int, rows.Lane, laneDoc]{s.lanes, numberFields, same[int], func(l *rows.Lane) int { return l.Number },
			func(l *rows.Lane) laneDoc {
				return laneDoc{ID: l.Number, Epoch: l.Epoch, Owner: l.Owner, Since: l.Since}
			},
			func(d *laneDoc) *rows.Lane {
				return &rows.Lane{Number: d.ID, Epoch: d.Epoch, Owner: d.Owner, Since: d.Since}
			}},
	}
}

// archive gives rows their keys.
type archive struct {
	*table[any, rows.Archived, archiveDoc]
}

func (a archive) Add(ctx context.Context, list ...*rows.Archived) error {
	for _, r := range list {
		r.Key = bson.NewObjectID()
	}
	return a.table.Add(ctx, list...)
}

// ids are the identities that are remembered. Earlier versions have stored ids alone, which stand for all messages
// with that id.
type ids struct {
	*table[outbox.Identity, rows.ID, idDoc]
}

func (t ids) Get(ctx context.Context, keys ...outbox.Identity) ([]*rows.ID, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	docs, err := find[idDoc](ctx, t.c, bothForms(keys))
	var list []*rows.ID
	for i := range docs {
		id := docs[i].id()
		for _, k := range keys {
			if id.Identity == k || docs[i].alone() && id.ID == k.ID {
				list = append(list, &rows.ID{Identity: k, At: id.At})
			}
		}
	}
	return list, t.wrap("read", err)
}

func (t ids) Delete(ctx context.Context, keys ...outbox.Identity) error {
	if len(keys) == 0 {
		return nil
	}
	_, err := t.c.DeleteMany(ctx, bothForms(keys))
	return t.wrap("remove from", err)
}

// bothForms matches what is stored for identities.
func bothForms(keys []outbox.Identity) bson.M {
	forms := make([]any, 0, 2*len(keys))
	for _, k := range keys {
		forms = append(forms, identityOf(k), k.ID)
	}
	return bson.M{"_id": in(forms)}
}
