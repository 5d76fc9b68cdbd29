package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

const responseKeys = "idempotency_responses" // the collection

// MaxResponseSize is the maximum size, in bytes, of a response that [Leases.SaveResponse] stores:
// MongoDB's limit for a document, with room for the key.
const MaxResponseSize = 16<<20 - 16<<10

// FindResponse returns the response that is stored under key, and false if there is none or it has
// expired. Package idempotency says what responses are.
func (l *Leases) FindResponse(ctx context.Context, key string) ([]byte, bool, error) {
	var doc struct {
		Response []byte `bson:"response"`
		Live     bool   `bson:"live"`
	}
	shown := append(only("response"), bson.E{Key: "live", Value: op("$gt", "$expires_at", l.cfg.now())})
	err := l.responses.FindOne(outside(ctx), bson.M{"_id": key}, options.FindOne().SetProjection(shown)).Decode(&doc)
	if errors.Is(err, mongo.ErrNoDocuments) || err == nil && !doc.Live {
		return nil, false, nil
	}
	return doc.Response, err == nil, wrap("find a response", err)
}

// SaveResponse stores a response under key for the given time, which is at least a millisecond,
// unless one is stored there already that has not expired. The key follows the rules of
// [lease.ValidateKey]; the response has at most [MaxResponseSize] bytes. The server removes it
// some time after it has expired, if [Leases.EnsureIndexes] was called.
func (l *Leases) SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error {
	switch {
	case ttl < time.Millisecond:
		return &waybill.InvalidError{Field: "ttl", Reason: "is less than a millisecond"}
	case len(response) > MaxResponseSize:
		return &waybill.InvalidError{Field: "response", Reason: "is longer than a document of MongoDB may be"}
	}
	if err := lease.ValidateKey(key); err != nil {
		return err
	}
	free := op("$lte", op("$ifNull", "$expires_at", l.cfg.now()), l.cfg.now())
	update := onlyIf(free, bson.D{
		{Key: "response", Value: bson.D{{Key: "$literal", Value: bson.Binary{Data: response}}}},
		{Key: "expires_at", Value: l.cfg.later(ttl)},
	})
	for {
		_, err := l.responses.UpdateOne(outside(ctx), bson.M{"_id": key}, update, options.UpdateOne().SetUpsert(true))
		if !mongo.IsDuplicateKeyError(err) { // else somebody has inserted the key at the same time
			return wrap("save a response", err)
		}
	}
}
