package conformance

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/testtools/mongofake"
	"github.com/waybill-go/waybill/store/mongostore"
	"github.com/waybill-go/waybill/store/storetest"
)

// mongoClock is an offset that a test moves.
type mongoClock struct{ offset atomic.Int64 }

func (c *mongoClock) now() time.Duration        { return time.Duration(c.offset.Load()) }
func (c *mongoClock) advance(d time.Duration)   { c.offset.Add(int64(d)) }
func (c *mongoClock) config() mongostore.Config { return mongostore.Config{ClockOffset: c.now} }

// mongoURL is the server that MONGODB_URL names, a replica set, or else one of ours.
func mongoURL(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("MONGODB_URL"); url != "" {
		return url
	}
	s, err := mongofake.Listen()
	must(t, err)
	t.Cleanup(s.Close)
	return s.URL()
}

// mongoClient connects to a server.
func mongoClient(t *testing.T, url string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return client
}

var mongoDatabases atomic.Int64

// mongoDatabase returns a database of the test's own.
func mongoDatabase(t *testing.T, client *mongo.Client) *mongo.Database {
	t.Helper()
	db := client.Database(fmt.Sprintf("waybill_%d_%d", time.Now().UnixNano(), mongoDatabases.Add(1)))
	t.Cleanup(func() { db.Drop(context.Background()) })
	return db
}

// mongoLeases is a lease store with its clock.
type mongoLeases struct {
	*mongostore.Leases
	db    *mongo.Database
	clock *mongoClock
}

func openMongoLeases(t *testing.T, db *mongo.Database, clock *mongoClock) *mongoLeases {
	t.Helper()
	l, err := mongostore.NewLeases(db, clock.config())
	must(t, err)
	must(t, l.EnsureIndexes(context.Background()))
	return &mongoLeases{Leases: l, db: db, clock: clock}
}

func TestMongoLeases(t *testing.T) {
	t.Parallel()
	storetest.RunLeases(t, mongoLeaseHarness(mongoClient(t, mongoURL(t))))
}

func mongoLeaseHarness(client *mongo.Client) storetest.LeaseHarness {
	return storetest.LeaseHarness{
		Features: storetest.LeaseFeatures{Persists: true},
		Open: func(t *testing.T) lease.BatchStore {
			return openMongoLeases(t, mongoDatabase(t, client), &mongoClock{})
		},
		Reopen: func(t *testing.T, s lease.BatchStore) lease.BatchStore {
			own := s.(*mongoLeases)
			return openMongoLeases(t, own.db, own.clock)
		},
		Advance: func(_ *testing.T, s lease.BatchStore, d time.Duration) { s.(*mongoLeases).clock.advance(d) },
	}
}

// mongoStore is a store with its clock.
type mongoStore struct {
	*mongostore.Store
	db    *mongo.Database
	clock *mongoClock
}

func openMongo(t *testing.T, db *mongo.Database, clock *mongoClock) *mongoStore {
	t.Helper()
	s, err := mongostore.New(db, clock.config())
	must(t, err)
	must(t, s.Migrate(context.Background()))
	return &mongoStore{Store: s, db: db, clock: clock}
}

// endMongo ends a user's own session after its last command.
func endMongo(t *testing.T, s *mongo.Session, last func(context.Context) error) {
	t.Helper()
	defer s.EndSession(context.Background())
	must(t, last(context.Background()))
}

//test:setup
func TestMongoStore(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	own := func(s storetest.Store[*mongo.Session]) *mongoStore { return s.(*mongoStore) }
	storetest.Run(t, storetest.Harness[*mongo.Session]{
		Features: storetest.Features{Lanes: 64, Traffic: true, ConcurrentWriters: true, Persists: true, Endless: true, NoForeignRows: true, ClashesAtOnce: true, InboxBatches: true, EndsTransactions: true},
		Open: func(t *testing.T) storetest.Store[*mongo.Session] {
			return openMongo(t, mongoDatabase(t, client), &mongoClock{})
		},
		Reopen: func(t *testing.T, s storetest.Store[*mongo.Session]) storetest.Store[*mongo.Session] {
			return openMongo(t, own(s).db, own(s).clock)
		},
		Begin: func(t *testing.T, _ storetest.Store[*mongo.Session]) *mongo.Session {
			t.Helper()
			s, err := client.StartSession()
			must(t, err)
			must(t, s.StartTransaction())
			return s
		},
		Commit:   func(t *testing.T, s *mongo.Session) { t.Helper(); endMongo(t, s, s.CommitTransaction) },
		Rollback: func(t *testing.T, s *mongo.Session) { t.Helper(); endMongo(t, s, s.AbortTransaction) },
		Effect: func(ctx context.Context, s storetest.Store[*mongo.Session], tx *mongo.Session, name string) error {
			_, err := own(s).db.Collection("effects").InsertOne(mongo.NewSessionContext(ctx, tx), bson.M{"name": name})
			return err
		},
		Break: func(ctx context.Context, s storetest.Store[*mongo.Session], tx *mongo.Session) error {
			_, err := own(s).db.Collection("once").InsertMany(mongo.NewSessionContext(ctx, tx), []any{bson.M{"_id": 1}, bson.M{"_id": 1}})
			return err
		},
		Effects: func(t *testing.T, s storetest.Store[*mongo.Session], name string) int {
			t.Helper()
			n, err := own(s).db.Collection("effects").CountDocuments(context.Background(), bson.M{"name": name})
			must(t, err)
			return int(n)
		},
		Advance: func(_ *testing.T, s storetest.Store[*mongo.Session], d time.Duration) { own(s).clock.advance(d) },
		Forget: func(t *testing.T, s storetest.Store[*mongo.Session], k inbox.Key) {
			t.Helper()
			_, err := own(s).db.Collection("waybill_inbox").DeleteMany(context.Background(), bson.M{"_id.consumer": k.Consumer, "_id.message": k.Message})
			must(t, err)
		},
	})
}
