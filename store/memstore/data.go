package memstore

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
	"github.com/waybill-go/waybill/traffic"
)

// data is what the store holds. The map that a message is in is its state, as the table is in the
// other stores.
type data struct {
	outbox    map[int64]*rows.Row
	waiting   map[rows.Place]*rows.Waiting
	archive   map[any]*rows.Archived // by order of publishing
	published int64                  // the last key of archive
	ids       map[outbox.Identity]*rows.ID
	scheduled map[int64]*rows.Row
	letters   map[int64]*rows.Letter
	audit     map[int64]*deadletter.Entry
	replays   map[int64]*rows.Replay
	inbox     map[inbox.Key]*rows.Record
	attempts  map[inbox.Key]*rows.Attempt
	relays    map[string]*rows.Relay
	lanes     map[int]*rows.Lane
	drawn     map[rows.Counter]int64 // the last number of each; never taken back

	tokens    map[string]int64 // positions in scheduled, by id, of what was scheduled by itself; it may have left since
	schedules map[string]schedule.State
	sagas     map[saga.ID]saga.Instance
	sagaLog   map[saga.ID][]saga.Entry
	instances int64 // the number of the latest instance of a saga; never taken back
	offsets   map[inbox.Partition]contract.Progress
	leases    map[string]leaseRow
	responses map[string]savedResponse
	traffic   map[trafficKey]traffic.Row
	values    map[string]any
}

func newData() data {
	d := data{
		outbox: make(map[int64]*rows.Row), waiting: make(map[rows.Place]*rows.Waiting), archive: make(map[any]*rows.Archived),
		ids: make(map[outbox.Identity]*rows.ID), scheduled: make(map[int64]*rows.Row), letters: make(map[int64]*rows.Letter),
		audit: make(map[int64]*deadletter.Entry), replays: make(map[int64]*rows.Replay), inbox: make(map[inbox.Key]*rows.Record),
		attempts: make(map[inbox.Key]*rows.Attempt), relays: make(map[string]*rows.Relay), lanes: make(map[int]*rows.Lane), drawn: make(map[rows.Counter]int64),
		offsets: make(map[inbox.Partition]contract.Progress), leases: make(map[string]leaseRow), responses: make(map[string]savedResponse),
		sagas: make(map[saga.ID]saga.Instance), sagaLog: make(map[saga.ID][]saga.Entry),
		tokens: make(map[string]int64), schedules: make(map[string]schedule.State), traffic: make(map[trafficKey]traffic.Row), values: make(map[string]any),
	}
	for n := range lanehash.Count {
		d.lanes[n] = &rows.Lane{Number: n}
	}
	return d
}

// newTables returns the tables over the store's maps.
func (s *Store) newTables() *rows.Tx {
	d := &s.data
	return &rows.Tx{
		Driver:    driver{s},
		Outbox:    table(s, d.outbox, position),
		Scheduled: table(s, d.scheduled, position),
		Waiting:   table(s, d.waiting, (*rows.Waiting).Place),
		Archive:   archive{table(s, d.archive, func(a *rows.Archived) any { return a.Key }), d},
		IDs:       table(s, d.ids, func(id *rows.ID) outbox.Identity { return id.Identity }),
		Letters:   table(s, d.letters, func(l *rows.Letter) int64 { return l.Number }),
		Audit:     table(s, d.audit, func(e *deadletter.Entry) int64 { return e.Number }),
		Replays:   table(s, d.replays, func(r *rows.Replay) int64 { return r.Number }),
		Inbox:     table(s, d.inbox, func(r *rows.Record) inbox.Key { return r.Key }),
		Attempts:  table(s, d.attempts, func(a *rows.Attempt) inbox.Key { return a.Key }),
		Relays:    table(s, d.relays, func(r *rows.Relay) string { return r.Node }),
		Lanes:     table(s, d.lanes, func(l *rows.Lane) int { return l.Number }),
	}
}

// rows returns the tables, at the time that it is now.
func (tx *Tx) rows() *rows.Tx {
	t := tx.store.tables
	t.Now = tx.store.now().UTC()
	return t
}

func position(r *rows.Row) int64 { return r.Position }

// newRow returns a message with a new position.
func (tx *Tx) newRow(m waybill.Message) *rows.Row {
	first, now, _ := driver{tx.store}.Draw(context.Background(), rows.Positions, 1) // it never fails
	return rows.NewRow(m, first, now)
}
