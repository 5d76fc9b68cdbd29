package mongostore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/rows"
)

// Waits of a transaction that conflicted with another one, before it is retried.
const (
	minClashWait = 2 * time.Millisecond
	maxClashWait = 100 * time.Millisecond
)

// database implements [rows.Store].
type database struct{ *Store }

// Run implements [rows.Store]. MongoDB fails the second of two transactions that write one
// document where others let it wait; so the waiting is done here.
func (s database) Run(ctx context.Context, again func() bool, fn func(ctx context.Context, t *rows.Tx, session *mongo.Session) error) error {
	for wait := minClashWait; ; wait = min(2*wait, maxClashWait) {
		err := s.once(ctx, fn)
		if err == nil || isOutage(err) || !isClash(err) || again != nil && !again() {
			return classify(err)
		}
		select {
		case <-time.After(wait/2 + rand.N(wait)):
		case <-ctx.Done():
			return classify(errors.Join(context.Cause(ctx), err))
		}
	}
}

// once runs fn in one transaction, its own also if ctx carries another one. An error or panic
// of fn rolls back.
func (s *Store) once(ctx context.Context, fn func(ctx context.Context, t *rows.Tx, session *mongo.Session) error) error {
	now, err := serverTime(ctx, s.db, &s.cfg)
	if err != nil {
		return err
	}
	session, err := s.db.Client().StartSession()
	if err != nil {
		return err
	}
	defer end(ctx, session)
	if err := session.StartTransaction(transactionOptions()); err != nil {
		return err
	}
	if err := fn(mongo.NewSessionContext(ctx, session), s.at(now), session); err != nil {
		return err
	}
	return commit(ctx, session)
}

// at returns the tables, with now as the time. Their methods take the context of a transaction.
func (s *Store) at(now time.Time) *rows.Tx {
	t := s.tables
	t.Now = now
	return &t
}

// On implements [rows.Store].
func (s database) On(ctx context.Context, session *mongo.Session) (context.Context, *rows.Tx, error) {
	ctx, err := inSession(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	now, err := serverTime(ctx, s.db, &s.cfg)
	return ctx, s.at(now), wrap("read the server's clock", err)
}

func transactionOptions() *options.TransactionOptionsBuilder {
	return options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
}

var errNoTx = &waybill.InvalidError{Field: "tx", Reason: "is required"}

// inSession returns a context whose commands are in the caller's transaction. Those of a nil session
// would be in none.
func inSession(ctx context.Context, session *mongo.Session) (context.Context, error) {
	if session == nil {
		return nil, errNoTx
	}
	return mongo.NewSessionContext(ctx, session), nil
}

const maxCommits = 3

// commit commits, and asks again if the answer was lost.
func commit(ctx context.Context, session *mongo.Session) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var err error
	for range maxCommits {
		err = session.CommitTransaction(ctx)
		var labelled mongo.LabeledError
		if !errors.As(err, &labelled) || !labelled.HasErrorLabel(labelUnknown) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

const abortTimeout = 5 * time.Second

// end ends a session, and rolls back what was not committed, also if ctx is done.
func end(ctx context.Context, session *mongo.Session) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	session.EndSession(ctx)
}

var errNotMigrated = errors.New("mongostore: the database was not migrated; call Store.Migrate")

// driver implements [rows.Driver].
type driver struct{ *Store }

// Draw belongs to no transaction, so that writers do not meet here; the numbers of one that rolls
// back are lost.
func (s driver) Draw(ctx context.Context, counter rows.Counter, n int) (int64, time.Time, error) {
	var doc struct {
		N   int64     `bson:"n"`
		Now time.Time `bson:"now"`
	}
	opts := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "n", Value: 1}, {Key: "now", Value: s.cfg.now()}})
	err := s.counters.FindOneAndUpdate(outside(ctx), bson.M{"_id": counter}, bson.M{"$inc": bson.M{"n": int64(n)}}, opts).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = errNotMigrated
	}
	return doc.N - int64(n) + 1, doc.Now, wrap("draw a "+string(counter), err)
}

// Lock counts the lanes' changes up.
func (s driver) Lock(ctx context.Context, lanes ...int) error {
	_, err := s.lanes.UpdateMany(ctx, bson.M{"_id": in(lanes)}, bson.M{"$inc": bson.M{"changes": int64(1)}})
	return wrap("lock lanes", err)
}

// outside returns a context whose commands are not in the transaction of ctx.
func outside(ctx context.Context) context.Context { return mongo.NewSessionContext(ctx, nil) }

// serverTime asks the server what time it is.
func serverTime(ctx context.Context, db *mongo.Database, cfg *Config) (time.Time, error) {
	var reply struct {
		Now time.Time `bson:"localTime"`
	}
	err := db.RunCommand(outside(ctx), bson.D{{Key: "hello", Value: 1}}).Decode(&reply)
	return reply.Now.Add(cfg.ClockOffset()).UTC(), err
}
