package opener

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/migrate"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/mongostore"
)

// defaultMongoDatabase is the one of a URL that names none.
const defaultMongoDatabase = "waybill"

// mongoDB is a Store of MongoDB.
type mongoDB struct {
	*mongostore.Store
	lease.BatchStore
	leases  *mongostore.Leases // the same
	db      *mongo.Database
	address string
}

var _ Store = (*mongoDB)(nil)

// isMongo reports whether a store's URL is one of MongoDB.
func isMongo(url string) bool {
	scheme := schemeOf(url)
	return scheme == "mongodb" || scheme == "mongodb+srv"
}

func newMongo(cfg StoreConfig) (Store, error) { return openMongo(cfg) }

func openMongo(cfg StoreConfig) (*mongoDB, error) {
	client, err := mongo.Connect(options.Client().ApplyURI(cfg.URL))
	if err != nil {
		return nil, badURL("store", cfg.URL, err)
	}
	m := &mongoDB{db: client.Database(mongoDatabase(cfg.URL)), address: redact.URL(cfg.URL)}
	if err := m.use(mongostore.Config{CollectionPrefix: cfg.TablePrefix}); err != nil {
		_ = m.Close() // it was never used
		return nil, err
	}
	return m, nil
}

func (m *mongoDB) use(cfg mongostore.Config) (err error) {
	if m.Store, err = mongostore.New(m.db, cfg); err != nil {
		return err
	}
	m.leases, err = mongostore.NewLeases(m.db, cfg)
	m.BatchStore = m.leases
	return err
}

// mongoDatabase returns the database that a URL names.
func mongoDatabase(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	_, path, _ := strings.Cut(rest, "/")
	if name, _, _ := strings.Cut(path, "?"); name != "" {
		return name
	}
	return defaultMongoDatabase
}

// mongoSchema is the only version of the schema.
var mongoSchema = migrate.Migration{
	Version: 1, Name: "001_collections",
	Up: "-- waybill migrate makes the collections, their indexes, the lanes and the counters.",
}

// Migrations implements [Store]. There is no SQL in them.
func (m *mongoDB) Migrations() []migrate.Migration { return []migrate.Migration{mongoSchema} }

// Migrate implements [Store]. Only this library enqueues, so it does not need a source.
func (m *mongoDB) Migrate(ctx context.Context, _ string, _ int) (int, error) {
	if err := m.leases.EnsureIndexes(ctx); err != nil {
		return 0, err
	}
	return mongoSchema.Version, m.Store.Migrate(ctx)
}

// Facts omits what does not matter to the store: its transactions set their own read and write
// concerns.
func (m *mongoDB) Facts(ctx context.Context) (Facts, error) {
	var build struct {
		Version string `bson:"version"`
	}
	if err := m.run(ctx, "buildInfo", &build); err != nil {
		return Facts{}, err
	}
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := m.run(ctx, "hello", &hello)
	return Facts{Version: "MongoDB " + build.Version, Clock: hello.LocalTime}, err
}

func (m *mongoDB) run(ctx context.Context, command string, answer any) error {
	if err := m.db.RunCommand(ctx, bson.D{{Key: command, Value: 1}}).Decode(answer); err != nil {
		return fmt.Errorf("mongodb: %s: %w", command, err)
	}
	return nil
}

func (m *mongoDB) Service(broker service.Broker, cfg service.Config) (Runner, error) {
	return service.New(m.Store, broker, cfg)
}

func (m *mongoDB) Address() string { return m.address }

func (m *mongoDB) Close() error { return m.db.Client().Disconnect(context.Background()) }
