package mongostore

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/internal/wakeup"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/traffic"
)

// engine implements the operations on rows, the same in all stores that run it.
type engine = rows.Engine[*mongo.Session]

// Store implements the contracts of outbox, relay, inbox, deadletter and janitor. It is safe
// for concurrent use.
type Store struct {
	engine
	cfg    Config
	db     *mongo.Database
	wake   wakeup.Signaller
	tables rows.Tx // without a time

	// The collection that a message is in is its state, as the table is in the SQL stores.
	outbox, waiting, archive, ids, scheduled, letters *mongo.Collection

	audit, replays, inbox, leases, attempts, relays, lanes, counters, traffic *mongo.Collection
}

var (
	_ outbox.Store[*mongo.Session]     = (*Store)(nil)
	_ inspect.Outbox                   = (*Store)(nil)
	_ contract.AheadSource             = (*Store)(nil)
	_ inspect.Relays                   = (*Store)(nil)
	_ contract.Inbox[*mongo.Session]   = (*Store)(nil)
	_ contract.Batcher[*mongo.Session] = (*Store)(nil)
	_ inbox.Recorder[*mongo.Session]   = (*Store)(nil)
	_ inspect.Inbox                    = (*Store)(nil)
	_ inspect.InboxSizer               = (*Store)(nil)
	_ deadletter.Store                 = (*Store)(nil)
	_ deadletter.ReplayStore           = (*Store)(nil)
	_ deadletter.Auditor               = (*Store)(nil)
	_ deadletter.Canceller             = (*Store)(nil)
	_ janitor.Store                    = (*Store)(nil)
	_ traffic.Store                    = (*Store)(nil)
)

// New returns the store in db, which must be of a replica set or a sharded cluster, because
// others have no transactions. The caller keeps db's client and disconnects it. [Store.Migrate]
// must have been called once. The error is an [*waybill.InvalidError] about cfg.
func New(db *mongo.Database, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := func(name string) *mongo.Collection { return cfg.collection(db, name) }
	s := &Store{
		cfg: cfg, db: db,
		outbox: c("outbox"), waiting: c("outbox_waiting"), archive: c("outbox_archive"), ids: c("outbox_ids"),
		scheduled: c("scheduled"), letters: c("dead_letters"), audit: c("audit"), replays: c("replays"),
		inbox: c("inbox"), leases: c(leaseKeys), attempts: c("consumer_attempts"), relays: c("relays"), lanes: c("relay_lanes"), counters: c("counters"), traffic: c("traffic"),
	}
	s.engine, s.tables = rows.NewEngine[*mongo.Session](database{s}), s.newTables()
	return s, nil
}

// WakeRelay implements [outbox.Store].
func (s *Store) WakeRelay() { s.wake.Signal() }

// LeaveLanes implements [contract.Source].
func (s *Store) LeaveLanes(ctx context.Context, node string) error {
	s.wake.Leave(node)
	return s.engine.LeaveLanes(ctx, node)
}

// AwaitMessages implements [contract.Source]. It learns of what this store object has committed;
// the commits of others are found at the next poll.
func (s *Store) AwaitMessages(ctx context.Context, node string) error {
	s.wake.Wait(ctx, node)
	return nil
}
