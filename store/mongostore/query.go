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

// findOne returns the first document that matches, and false if there is none.
func findOne[T any](ctx context.Context, c *mongo.Collection, filter bson.M, sort ...string) (doc T, found bool, err error) {
	err = c.FindOne(ctx, filter, options.FindOne().SetSort(by(sort...))).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return doc, false, nil
	}
	return doc, err == nil, err
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
