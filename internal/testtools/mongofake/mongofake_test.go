package mongofake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/internal/testtools/mongofake"
)

// doc returns the document of names and values that alternate.
func doc(pairs ...any) bson.D {
	d := bson.D{}
	for i := 0; i < len(pairs); i += 2 {
		d = append(d, bson.E{Key: pairs[i].(string), Value: pairs[i+1]})
	}
	return d
}

func list(values ...any) bson.A { return values }

func connect(t *testing.T) (*mongofake.Server, *mongo.Collection) {
	t.Helper()
	s, err := mongofake.Listen()
	must(t, err)
	t.Cleanup(s.Close)
	client, err := mongo.Connect(options.Client().ApplyURI(s.URL()))
	must(t, err)
	t.Cleanup(func() { client.Disconnect(context.Background()) })
	return s, client.Database("db").Collection("things")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// begin returns a context whose commands are in a transaction, and the session.
func begin(t *testing.T, c *mongo.Collection) (context.Context, *mongo.Session) {
	t.Helper()
	s, err := c.Database().Client().StartSession()
	must(t, err)
	t.Cleanup(func() { s.EndSession(context.Background()) })
	must(t, s.StartTransaction())
	return mongo.NewSessionContext(t.Context(), s), s
}

func insert(t *testing.T, ctx context.Context, c *mongo.Collection, fields bson.D) {
	t.Helper()
	_, err := c.InsertOne(ctx, fields)
	must(t, err)
}

func wantCount(t *testing.T, ctx context.Context, c *mongo.Collection, filter bson.D, want int64) {
	t.Helper()
	n, err := c.CountDocuments(ctx, filter)
	must(t, err)
	if n != want {
		t.Errorf("CountDocuments(%v) = %d, want %d", filter, n, want)
	}
}

func isConflict(err error) bool {
	var labelled mongo.LabeledError
	var server mongo.ServerError
	return errors.As(err, &labelled) && labelled.HasErrorLabel("TransientTransactionError") &&
		errors.As(err, &server) && server.HasErrorCode(112)
}

func TestTransaction_Isolation(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	insert(t, t.Context(), c, doc("_id", 1, "n", 1))
	ctx, s := begin(t, c)
	wantCount(t, ctx, c, doc(), 1)
	insert(t, ctx, c, doc("_id", 2))
	insert(t, t.Context(), c, doc("_id", 3))
	wantCount(t, ctx, c, doc(), 2)         // its own, and nothing that was committed since
	wantCount(t, t.Context(), c, doc(), 2) // not what is not committed
	must(t, s.CommitTransaction(t.Context()))
	wantCount(t, t.Context(), c, doc(), 3)

	ctx, s = begin(t, c)
	_, err := c.DeleteMany(ctx, doc())
	must(t, err)
	wantCount(t, ctx, c, doc(), 0)
	must(t, s.AbortTransaction(t.Context()))
	wantCount(t, t.Context(), c, doc(), 3)
}

func TestTransaction_WriteConflict(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	insert(t, t.Context(), c, doc("_id", 1, "n", 1))
	inc := doc("$inc", doc("n", 1))
	first, s1 := begin(t, c)
	second, s2 := begin(t, c)
	wantCount(t, second, c, doc(), 1)
	_, err := c.UpdateByID(first, 1, inc)
	must(t, err)
	if _, err = c.UpdateByID(second, 1, inc); !isConflict(err) {
		t.Errorf("write of what another transaction has written = %v, want a write conflict", err)
	}
	if err := s2.CommitTransaction(t.Context()); err == nil {
		t.Error("a transaction that failed was committed")
	}
	third, _ := begin(t, c)
	wantCount(t, third, c, doc(), 1)
	must(t, s1.CommitTransaction(t.Context()))
	if _, err = c.UpdateByID(third, 1, inc); !isConflict(err) {
		t.Errorf("write of what changed after the snapshot = %v, want a write conflict", err)
	}
	wantCount(t, t.Context(), c, doc("n", 2), 1)
}

func TestWriteAloneWaitsForTransaction(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	insert(t, t.Context(), c, doc("_id", 1, "n", 1))
	ctx, s := begin(t, c)
	inc := doc("$inc", doc("n", 1))
	_, err := c.UpdateByID(ctx, 1, inc)
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := c.UpdateByID(context.Background(), 1, inc)
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("write concurrent with a transaction returned %v before that one ended", err)
	case <-time.After(50 * time.Millisecond):
	}
	must(t, s.CommitTransaction(t.Context()))
	must(t, <-done)
	wantCount(t, t.Context(), c, doc("n", 3), 1)
}

func TestUniqueIndex(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: doc("a", 1, "b", 1), Options: options.Index().SetUnique(true)})
	must(t, err)
	insert(t, t.Context(), c, doc("_id", 1, "a", 1, "b", "x"))
	insert(t, t.Context(), c, doc("_id", 2, "a", 1, "b", "y"))
	if _, err := c.InsertOne(t.Context(), doc("_id", 3, "a", int64(1), "b", "x")); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("second document with a key = %v, want a duplicate key", err)
	}
	ctx, s := begin(t, c)
	_, err = c.DeleteOne(ctx, doc("_id", 1))
	must(t, err)
	insert(t, ctx, c, doc("_id", 4, "a", 1, "b", "x")) // its own delete has freed the key
	other, _ := begin(t, c)
	if _, err := c.InsertOne(other, doc("_id", 5, "a", 1, "b", "x")); !isConflict(err) {
		t.Errorf("key that another transaction has written = %v, want a write conflict", err)
	}
	must(t, s.CommitTransaction(t.Context()))
	ctx, s = begin(t, c)
	if _, err := c.InsertOne(ctx, doc("_id", 6, "a", 1, "b", "x")); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("taken key in a transaction = %v, want a duplicate key", err)
	}
	if err := s.CommitTransaction(t.Context()); err == nil {
		t.Error("a duplicate key did not end the transaction")
	}
}

func TestFindAndModify(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	fields := doc(
		"n", doc("$add", list(doc("$ifNull", list("$n", 0)), 1)),
		"at", "$$NOW",
		"big", doc("$cond", list(doc("$gte", list("$n", 1)), "yes", "no")),
		"text", doc("$literal", "$n"),
		"absent", "$no.such.field",
	)
	pipeline := mongo.Pipeline{doc("$replaceWith", doc("$mergeObjects", list("$$ROOT", fields)))}
	opts := options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).SetProjection(doc("n", 1, "big", 1, "text", 1, "absent", 1))
	before := time.Now().Truncate(time.Millisecond)
	for i, want := range []string{
		`{"_id":"k","n":1,"big":"no","text":"$n"}`,
		`{"_id":"k","n":2,"big":"yes","text":"$n"}`,
	} {
		got, err := c.FindOneAndUpdate(t.Context(), doc("_id", "k"), pipeline, opts).Raw()
		must(t, err)
		text, err := bson.MarshalExtJSON(got, false, false)
		must(t, err)
		if string(text) != want {
			t.Errorf("call %d: got %s, want %s", i+1, text, want)
		}
	}
	wantCount(t, t.Context(), c, doc("at", doc("$gte", before, "$lte", time.Now())), 1)
	err := c.FindOneAndUpdate(t.Context(), doc("_id", "none"), pipeline).Err()
	if !errors.Is(err, mongo.ErrNoDocuments) {
		t.Errorf("FindOneAndUpdate of nothing = %v, want %v", err, mongo.ErrNoDocuments)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	for i, v := range []any{1, 2.5, "text", nil, true, doc("in", "x")} {
		insert(t, t.Context(), c, doc("_id", i, "v", v))
	}
	insert(t, t.Context(), c, doc("_id", 6))
	for _, tc := range []struct {
		filter bson.D
		want   int64
	}{
		{doc("v", 1), 1},
		{doc("v", 1.0, "_id", 0), 1},
		{doc("v", doc("$gt", 1)), 1},
		{doc("v", doc("$gte", 1, "$lt", 2)), 1},
		{doc("v", doc("$ne", 1)), 6},
		{doc("v", nil), 2},
		{doc("v", doc("$exists", true)), 6},
		{doc("v", doc("$in", list(1, "text"))), 2},
		{doc("v", doc("$nin", list(1, "text"))), 5},
		{doc("v.in", "x"), 1},
		{doc("v", doc("$regex", "^TE", "$options", "i")), 1},
		{doc("v", doc("$regex", "^TE")), 0},
		{doc("$or", list(doc("v", 1), doc("v", true))), 2},
		{doc("$and", list(doc("v", 1), doc("_id", 1))), 0},
	} {
		wantCount(t, t.Context(), c, tc.filter, tc.want)
	}
}

func TestRetriedWriteIsDoneOnce(t *testing.T) {
	t.Parallel()
	s, c := connect(t)
	insert(t, t.Context(), c, doc("_id", 1, "n", 0))
	s.CutConnections()
	_, err := c.UpdateByID(t.Context(), 1, doc("$inc", doc("n", 1)))
	must(t, err)
	wantCount(t, t.Context(), c, doc("n", 1), 1)

	session, err := c.Database().Client().StartSession()
	must(t, err)
	defer session.EndSession(context.Background())
	again := doc("update", "things", "lsid", session.ID(), "txnNumber", int64(77),
		"updates", list(doc("q", doc("_id", 1), "u", doc("$inc", doc("n", 1)))))
	for range 2 {
		must(t, c.Database().RunCommand(t.Context(), again).Err())
	}
	wantCount(t, t.Context(), c, doc("n", 2), 1)
}

func TestTransaction_Refused(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	for _, command := range []bson.D{
		doc("count", "things"),
		doc("find", "things", "writeConcern", doc("w", 1)),
	} {
		ctx, s := begin(t, c)
		wantCount(t, ctx, c, doc(), 0)
		if err := c.Database().RunCommand(ctx, command).Err(); err == nil {
			t.Errorf("%v was let into a transaction", command)
		}
		if err := s.CommitTransaction(t.Context()); err == nil {
			t.Errorf("the transaction went on after %v", command)
		}
	}
}

func TestUnknownIsRefused(t *testing.T) {
	t.Parallel()
	_, c := connect(t)
	insert(t, t.Context(), c, doc("_id", 1, "n", 1))
	update := func(u any) error { _, err := c.UpdateByID(t.Context(), 1, u); return err }
	find := func(filter bson.D) error { return c.FindOne(t.Context(), filter).Err() }
	for name, err := range map[string]error{
		"command":         c.Database().RunCommand(t.Context(), doc("collStats", "things")).Err(),
		"option":          c.FindOne(t.Context(), doc(), options.FindOne().SetHint("_id_")).Err(),
		"query operator":  find(doc("n", doc("$mod", list(2, 1)))),
		"top operator":    find(doc("$nor", list())),
		"update operator": update(doc("$mul", doc("n", 2))),
		"stage":           update(mongo.Pipeline{doc("$set", doc("n", 1))}),
		"expression":      update(mongo.Pipeline{doc("$replaceWith", doc("$arrayToObject", "$n"))}),
		"variable":        update(mongo.Pipeline{doc("$replaceWith", "$$CLUSTER_TIME")}),
		"index option": func() error {
			_, err := c.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: doc("n", 1), Options: options.Index().SetSparse(true)})
			return err
		}(),
	} {
		var server mongo.ServerError
		if !errors.As(err, &server) || !server.HasErrorCode(238) {
			t.Errorf("unknown %s: %v, want that it is refused as not implemented", name, err)
		}
	}
}
