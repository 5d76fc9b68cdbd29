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
)

// tx is what happens in one transaction. The context of its methods is that of the session.
type tx struct {
	*Store
	session *mongo.Session
	now     time.Time // by the server's clock, when it began
}

// Waits of a transaction that met another one, before it is tried again.
const (
	minClashWait = 2 * time.Millisecond
	maxClashWait = 100 * time.Millisecond
)

// inTx runs fn in a transaction, again for as long as it clashes with others.
func (s *Store) inTx(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	return s.repeat(ctx, isClash, fn)
}

// repeat runs fn in a transaction, again while the error is one that again is true for.
// MongoDB fails the second of two transactions that write one document where others let it
// wait; so the waiting is done here.
func (s *Store) repeat(ctx context.Context, again func(error) bool, fn func(ctx context.Context, t *tx) error) error {
	for wait := minClashWait; ; wait = min(2*wait, maxClashWait) {
		err := s.once(ctx, fn)
		if err == nil || isOutage(err) || !again(err) {
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
func (s *Store) once(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
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
	if err := fn(mongo.NewSessionContext(ctx, session), &tx{s, session, now}); err != nil {
		return err
	}
	return commit(ctx, session)
}

func transactionOptions() *options.TransactionOptionsBuilder {
	return options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
}

var errNoTx = &waybill.InvalidError{Field: "tx", Reason: "is required"}

// within returns a context whose commands are in the caller's transaction. Those of a nil session
// would be in none.
func within(ctx context.Context, session *mongo.Session) (context.Context, error) {
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

// Counters.
const (
	counterPosition = "position"
	counterLetter   = "letter"
	counterAudit    = "audit"
	counterReplay   = "replay"
)

var errNotMigrated = errors.New("mongostore: the database was not migrated; call Store.Migrate")

// draw takes n numbers of a counter and returns the first of them, and the time. It belongs to
// no transaction, so that writers do not meet here; the numbers of one that rolls back are
// lost.
func (s *Store) draw(ctx context.Context, counter string, n int) (int64, time.Time, error) {
	var doc struct {
		N   int64     `bson:"n"`
		Now time.Time `bson:"now"`
	}
	opts := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(bson.D{{Key: "n", Value: 1}, {Key: "now", Value: s.cfg.now()}})
	err := s.counters.FindOneAndUpdate(outside(ctx), bson.M{"_id": counter}, bson.M{"$inc": bson.M{"n": int64(n)}}, opts).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = errNotMigrated
	}
	return doc.N - int64(n) + 1, doc.Now, err
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
