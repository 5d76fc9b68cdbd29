package conformance

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/testtools/mongofake"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/store/mongostore"
)

func mongoMessage(id, key string) waybill.Message {
	m := waybill.Message{ID: id, Topic: "orders", Key: key, Source: "shop"}
	m.Complete()
	return m
}

func TestMongoStore_Unavailable(t *testing.T) {
	t.Parallel()
	server, err := mongofake.Listen()
	must(t, err)
	t.Cleanup(server.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URL()).SetServerSelectionTimeout(100 * time.Millisecond))
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	db := client.Database("waybill")
	s, leases := openMongo(t, db, &mongoClock{}), openMongoLeases(t, db, &mongoClock{})

	server.CutConnections()
	for err = errors.New("not asked"); err != nil; { // until the driver has connected again
		_, err = leases.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
		if err != nil && !waybill.IsUnavailable(err) {
			t.Fatalf("TryBegin() on a connection that was cut = %v, want an unavailable error", err)
		}
	}

	server.Close()
	m := mongoMessage("a", "k")
	var errs []error
	_, err = leases.TryBegin(t.Context(), lease.Request{Key: "k", TTL: time.Minute})
	errs = append(errs, err)
	_, err = leases.TryBeginAll(t.Context(), []lease.Request{{Key: "k", TTL: time.Minute}})
	errs = append(errs, err)
	_, err = s.ClaimMessages(t.Context(), contract.ClaimRequest{Lanes: []contract.Lane{{}}, Limit: 1})
	errs = append(errs, err)
	_, err = s.ProcessOnce(t.Context(), inbox.RecordOf("billing", &m), nil)
	errs = append(errs, err)
	for i, err := range errs {
		if !waybill.IsUnavailable(err) {
			t.Errorf("call %d to a server that is gone = %v, want an unavailable error", i+1, err)
		}
	}
}

// TestMongoStore_Conflict: where SQL databases let a writer wait, MongoDB ends its transaction.
func TestMongoStore_Conflict(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	s := openMongo(t, mongoDatabase(t, client), &mongoClock{})
	m := mongoMessage("a", "k")
	first, second := beginMongo(t, client), beginMongo(t, client)
	if _, err := s.EnqueueMessages(t.Context(), second, outbox.Batch{}); err != nil {
		t.Errorf("EnqueueMessages() of nothing = %v", err)
	}
	_, err := s.EnqueueMessages(t.Context(), first, outbox.Batch{Messages: []waybill.Message{m}})
	must(t, err)
	if _, err = s.EnqueueMessages(t.Context(), second, outbox.Batch{Messages: []waybill.Message{m}}); !waybill.IsConflict(err) {
		t.Errorf("EnqueueMessages() of an id that another transaction enqueues = %v, want a conflict", err)
	}
	must(t, first.CommitTransaction(t.Context()))

	rec := inbox.RecordOf("billing", &m)
	first, second = beginMongo(t, client), beginMongo(t, client)
	added, err := s.AddRecord(t.Context(), first, rec)
	if err != nil || !added {
		t.Fatalf("AddRecord() = %v, %v, want true", added, err)
	}
	if _, err := s.AddRecord(t.Context(), second, rec); !waybill.IsConflict(err) {
		t.Errorf("AddRecord() of a key that another transaction adds = %v, want a conflict", err)
	}
	must(t, first.CommitTransaction(t.Context()))
}

func beginMongo(t *testing.T, client *mongo.Client) *mongo.Session {
	t.Helper()
	s, err := client.StartSession()
	must(t, err)
	t.Cleanup(func() { s.EndSession(context.Background()) })
	must(t, s.StartTransaction())
	return s
}

// TestMongoStore_HandlerConflict: a handler that has begun is not run again by the store.
func TestMongoStore_HandlerConflict(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	s := openMongo(t, mongoDatabase(t, client), &mongoClock{})
	rows := s.db.Collection("rows")
	_, err := rows.InsertOne(t.Context(), bson.M{"_id": 1, "n": 0})
	must(t, err)
	inc := bson.M{"$inc": bson.M{"n": 1}}
	m, runs := mongoMessage("a", "k"), 0
	_, err = s.ProcessOnce(t.Context(), inbox.RecordOf("billing", &m), func(ctx context.Context, _ *mongo.Session) error {
		runs++
		other := beginMongo(t, client)
		if _, err := rows.UpdateByID(mongo.NewSessionContext(ctx, other), 1, inc); err != nil {
			return err
		}
		must(t, other.CommitTransaction(ctx))
		_, err := rows.UpdateByID(ctx, 1, inc) // the handler's snapshot is older than that
		return err
	})
	if !waybill.IsConflict(err) || runs != 1 {
		t.Errorf("ProcessOnce() = %v after %d runs, want a conflict after one", err, runs)
	}
	outcome, err := s.ProcessOnce(t.Context(), inbox.RecordOf("billing", &m), func(context.Context, *mongo.Session) error { return nil })
	if err != nil || outcome != inbox.Processed {
		t.Errorf("ProcessOnce() after the conflict = %v, %v, want processed", outcome, err)
	}
}

// TestMongoLeases_OutsideTransactions: a lease is there for all, whatever becomes of the
// transaction in which it was asked for.
func TestMongoLeases_OutsideTransactions(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	leases := openMongoLeases(t, mongoDatabase(t, client), &mongoClock{})
	session := beginMongo(t, client)
	ctx := mongo.NewSessionContext(t.Context(), session)
	_, err := leases.db.Collection("rows").InsertOne(ctx, bson.M{"_id": 1})
	must(t, err)
	req := lease.Request{Key: "k", TTL: time.Minute}
	_, err = leases.TryBegin(ctx, req)
	must(t, err)
	_, err = leases.TryBeginAll(ctx, []lease.Request{{Key: "all", TTL: time.Minute}})
	must(t, err)
	must(t, session.AbortTransaction(t.Context()))
	for _, key := range []string{"k", "all"} {
		r, err := leases.ReadLease(t.Context(), key)
		if err != nil || r.Status != lease.Busy {
			t.Errorf("ReadLease(%q) = %v, %v, want busy", key, r.Status, err)
		}
	}
}

// TestMongoLeases_TextsAreNoExpressions: what a request says is stored, and not read as a pipeline.
func TestMongoLeases_TextsAreNoExpressions(t *testing.T) {
	t.Parallel()
	leases := openMongoLeases(t, mongoDatabase(t, mongoClient(t, mongoURL(t))), &mongoClock{})
	req := lease.Request{Key: "$k", TTL: time.Minute, Owner: "$state", PayloadHash: "$$ROOT", RequestID: "$first_seen$first_seen"}
	a, err := leases.TryBegin(t.Context(), req)
	if err != nil || a.LeaseID != req.RequestID {
		t.Errorf("TryBegin() = %+v, %v, want the id of the request", a, err)
	}
	r, err := leases.ReadLease(t.Context(), req.Key)
	if err != nil || r.Owner != req.Owner || r.PayloadHash != req.PayloadHash {
		t.Errorf("ReadLease() = %+v, %v, want owner and hash as they were", r, err)
	}
	status, err := leases.ReleaseLease(t.Context(), lease.Lease{Key: req.Key, ID: req.RequestID}, lease.Release{})
	if err != nil || status != lease.Released {
		t.Errorf("ReleaseLease() = %v, %v", status, err)
	}
}

func TestMongoStore_NotMigrated(t *testing.T) {
	t.Parallel()
	client := mongoClient(t, mongoURL(t))
	s, err := mongostore.New(mongoDatabase(t, client), mongostore.Config{})
	must(t, err)
	_, err = s.EnqueueMessages(t.Context(), beginMongo(t, client), outbox.Batch{Messages: []waybill.Message{mongoMessage("a", "k")}})
	if err == nil || !strings.Contains(err.Error(), "Migrate") {
		t.Errorf("EnqueueMessages() before Migrate = %v, want that it names Migrate", err)
	}
	must(t, s.Migrate(t.Context()))
	must(t, s.Migrate(t.Context())) // may be repeated
}

func TestMongoConfig(t *testing.T) {
	t.Parallel()
	client, err := mongo.Connect()
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	for _, prefix := range []string{strings.Repeat("p", 65), "a$", "a\x00", "system.", ".a"} {
		var invalid *waybill.InvalidError
		if _, err := mongostore.New(client.Database("db"), mongostore.Config{CollectionPrefix: prefix}); !errors.As(err, &invalid) {
			t.Errorf("New() with the prefix %q = %v, want an InvalidError", prefix, err)
		}
		if _, err := mongostore.NewLeases(client.Database("db"), mongostore.Config{CollectionPrefix: prefix}); !errors.As(err, &invalid) {
			t.Errorf("NewLeases() with the prefix %q = %v, want an InvalidError", prefix, err)
		}
	}
	if _, err := mongostore.New(client.Database("db"), mongostore.Config{CollectionPrefix: strings.Repeat("p", 64)}); err != nil {
		t.Errorf("New() with the longest prefix = %v", err)
	}
}

// TestMongoStore_Explain reads the settings of the live server. What a user may not read is not told.
func TestMongoStore_Explain(t *testing.T) {
	t.Parallel()
	server, err := mongofake.Listen()
	must(t, err)
	t.Cleanup(server.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(server.URL()).SetServerSelectionTimeout(100 * time.Millisecond))
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	s := openMongo(t, client.Database("waybill"), &mongoClock{})
	told := func(setting string) guarantee.Fact {
		t.Helper()
		facts, err := s.Explain(t.Context())
		must(t, err)
		i := slices.IndexFunc(facts, func(f guarantee.Fact) bool { return f.Setting == setting })
		if i < 0 {
			t.Fatalf("Explain() = %+v, want %s among it", facts, setting)
		}
		return facts[i]
	}
	const journal = "writeConcernMajorityJournalDefault"
	for setting, want := range map[string]string{"writeConcern": "majority", "members": "1", journal: "true"} {
		if got := told(setting).Value; got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	server.Forbid("replSetGetConfig")
	if f := told(journal); f.Value != "" || f.Survives != guarantee.Unknown {
		t.Errorf("%s is %+v to a user who may not read it, want it not told", journal, f)
	}
	server.Close()
	if _, err := s.Explain(t.Context()); !waybill.IsUnavailable(err) {
		t.Errorf("Explain() = %v of a server that is gone, want unavailable", err)
	}
}
