package mongostore

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/inbox/lease"
)

// onlyIf is an update that sets fields if a condition holds, and else leaves the document as
// it is. It decides and writes atomically.
func onlyIf(condition any, fields bson.D) mongo.Pipeline {
	return mongo.Pipeline{{{Key: "$replaceWith", Value: op("$cond",
		condition, op("$mergeObjects", "$$ROOT", fields), "$$ROOT")}}}
}

func op(name string, args ...any) bson.D { return bson.D{{Key: name, Value: bson.A(args)}} }

// begin leases the key if it is not leased, does not wait, is not processed, and attempts are left.
func (l *Leases) begin(req lease.Request, id string) mongo.Pipeline {
	attempts := op("$ifNull", "$attempts", int32(0))
	token := op("$add", op("$ifNull", "$token", int64(0)), int64(1))
	free := bson.A{op("$ne", "$state", processed), op("$lte", op("$ifNull", "$until", l.cfg.now()), l.cfg.now())}
	if req.MaxAttempts > 0 {
		free = append(free, op("$lt", attempts, req.MaxAttempts))
	}
	return onlyIf(op("$and", free...), bson.D{
		{Key: "state", Value: leased},
		{Key: "lease", Value: bson.D{{Key: "$literal", Value: id}}},
		{Key: "owner", Value: bson.D{{Key: "$literal", Value: req.Owner}}},
		{Key: "token", Value: token},
		{Key: "attempts", Value: op("$add", attempts, int32(1))},
		{Key: "first_seen", Value: op("$ifNull", "$first_seen", l.cfg.now())},
		{Key: "last_seen", Value: l.cfg.now()},
		{Key: "until", Value: l.cfg.later(req.TTL)},
		{Key: "payload_hash", Value: bson.D{{Key: "$literal", Value: req.PayloadHash}}},
		{Key: "payload_token", Value: token},
	})
}

// byHolder changes the key if it is leased under the id, whether or not the lease has run out.
func byHolder(id string, fields bson.D) mongo.Pipeline {
	mine := op("$eq", "$lease", bson.D{{Key: "$literal", Value: id}})
	return onlyIf(op("$and", mine, op("$eq", "$state", leased)), fields)
}

func (l *Leases) renew(id string, ttl time.Duration) mongo.Pipeline {
	return byHolder(id, bson.D{{Key: "until", Value: l.cfg.later(ttl)}, {Key: "last_seen", Value: l.cfg.now()}})
}

func (l *Leases) mark(id string) mongo.Pipeline {
	return byHolder(id, bson.D{{Key: "state", Value: processed}, {Key: "until", Value: nil}, {Key: "last_seen", Value: l.cfg.now()}})
}

func (l *Leases) release(id string, r lease.Release) mongo.Pipeline {
	less, until := int32(0), any(nil)
	if r.Uncounted {
		less = -1
	}
	if r.Wait > 0 {
		until = l.cfg.later(r.Wait)
	}
	return byHolder(id, bson.D{
		{Key: "state", Value: released}, {Key: "until", Value: until}, {Key: "last_seen", Value: l.cfg.now()},
		{Key: "attempts", Value: op("$add", "$attempts", less)},
	})
}
