package mongostore

import (
	"context"
	"errors"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// find returns the documents that match, and an empty slice if there are none.
func find[T any](ctx context.Context, c *mongo.Collection, filter bson.M, opts ...options.Lister[options.FindOptions]) ([]T, error) {
	cursor, err := c.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	docs := []T{}
	if err := cursor.All(ctx, &docs); err != nil {
		return nil, err
	}
	return docs, nil
}

// findUntil is find that stops once the documents have a size of limit, unless that is 0.
func findUntil[T any](ctx context.Context, c *mongo.Collection, limit int, size func(T) int, filter bson.M, opts ...options.Lister[options.FindOptions]) ([]T, error) {
	cursor, err := c.Find(ctx, filter, opts...)
	if err != nil {
		return nil, err
	}
	defer cursor.Close(context.WithoutCancel(ctx)) // what is left there ends by itself
	docs, sum := []T{}, 0
	for (limit <= 0 || sum < limit) && cursor.Next(ctx) {
		var doc T
		if err := cursor.Decode(&doc); err != nil {
			return nil, err
		}
		docs = append(docs, doc)
		sum += size(doc)
	}
	return docs, cursor.Err()
}

// findOne returns the first document that matches, and false if there is none.
func findOne[T any](ctx context.Context, c *mongo.Collection, filter bson.M, sort ...string) (doc T, found bool, err error) {
	err = c.FindOne(ctx, filter, options.FindOne().SetSort(by(sort...))).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return doc, false, nil
	}
	return doc, err == nil, err
}

// exists reports whether a document matches.
func exists(ctx context.Context, c *mongo.Collection, filter bson.M) (bool, error) {
	_, found, err := findOne[bson.Raw](ctx, c, filter)
	return found, err
}

// save stores a document under its _id, in the place of the one that is there.
func save(ctx context.Context, c *mongo.Collection, id, doc any) error {
	_, err := c.ReplaceOne(ctx, bson.M{"_id": id}, doc, options.Replace().SetUpsert(true))
	return err
}

// insertAll inserts documents, or none if there are none.
func insertAll[T any](ctx context.Context, c *mongo.Collection, docs []T) error {
	if len(docs) == 0 {
		return nil
	}
	_, err := c.InsertMany(ctx, docs)
	return err
}

// remove deletes a document, if it is there.
func remove(ctx context.Context, c *mongo.Collection, id any) error {
	_, err := c.DeleteOne(ctx, bson.M{"_id": id})
	return err
}

// idsOf returns the _ids of up to limit documents that match.
func idsOf(ctx context.Context, c *mongo.Collection, filter bson.M, limit int) ([]any, error) {
	docs, err := find[struct {
		ID any `bson:"_id"`
	}](ctx, c, filter, options.Find().SetProjection(only("_id")).SetLimit(int64(limit)))
	ids := make([]any, len(docs))
	for i := range docs {
		ids[i] = docs[i].ID
	}
	return ids, err
}

// by is an order by fields, falling for those that begin with '-'.
func by(fields ...string) bson.D {
	order := bson.D{}
	for _, f := range fields {
		direction := 1
		if name, falling := strings.CutPrefix(f, "-"); falling {
			f, direction = name, -1
		}
		order = append(order, bson.E{Key: f, Value: direction})
	}
	return order
}

// sorted is the option for an order.
func sorted(fields ...string) *options.FindOptionsBuilder {
	return options.Find().SetSort(by(fields...))
}

// only is a projection: these fields, and the _id.
func only(fields ...string) bson.D { return by(fields...) }

func in[T any](values []T) bson.M { return bson.M{"$in": orEmpty(values)} }

// orEmpty returns an empty slice for nil, which would be stored as null.
func orEmpty[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}
