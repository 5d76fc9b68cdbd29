package mongostore

import (
	"context"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/waybill-go/waybill/contract"
)

// ClaimAhead implements [contract.AheadSource].
func (s *Store) ClaimAhead(ctx context.Context, req contract.AheadRequest) (claims []contract.Claim, reached int64, err error) {
	err = s.inTx(ctx, func(ctx context.Context, t *tx) error {
		claims, reached = []contract.Claim{}, req.Above
		if req.Lanes, err = t.current(ctx, req.Lanes); err != nil {
			return err
		}
		first, some, err := findOne[readyDoc](ctx, t.outbox, bson.M{"_id": bson.M{"$gt": req.Above}}, "_id")
		if err != nil || !some {
			return err
		}
		last, _, err := findOne[readyDoc](ctx, t.outbox, bson.M{}, "-_id")
		if err != nil {
			return err
		}
		claims, reached, err = t.claimAhead(ctx, req, min(first.ID+req.Span-1, last.ID))
		return err
	})
	return claims, reached, err
}

// claimAhead claims between the position of the request and another one.
func (t *tx) claimAhead(ctx context.Context, req contract.AheadRequest, upTo int64) ([]contract.Claim, int64, error) {
	rows, err := findUntil(ctx, t.outbox, req.Bytes, readyDoc.size, bson.M{
		"row.lane": in(numbersOf(req.Lanes)), "row.message.tenant": bson.M{"$nin": req.Without},
		"_id": bson.M{"$gt": req.Above, "$lte": upTo, "$nin": orEmpty(req.Held)},
	}, sorted("_id").SetLimit(int64(req.Limit)))
	if err != nil {
		return nil, 0, err
	}
	claims, err := t.readyClaims(ctx, rows, req.Lanes)
	if err != nil {
		return nil, 0, err
	}
	reached := req.Reached(claims, upTo)
	claims, err = t.withoutPassing(ctx, req, claims)
	return claims, reached, err
}

// withoutPassing leaves out the claims that have an earlier row of their key which stays behind.
func (t *tx) withoutPassing(ctx context.Context, req contract.AheadRequest, claims []contract.Claim) ([]contract.Claim, error) {
	var topics, keys []string
	for _, c := range claims {
		if c.Message.Key != "" {
			topics, keys = append(topics, c.Message.Address()), append(keys, c.Message.Key)
		}
	}
	if len(keys) == 0 {
		return claims, nil
	}
	earlier, err := find[readyDoc](ctx, t.outbox, bson.M{
		"row.lane": in(numbersOf(req.Lanes)), "row.topic": in(topics), "row.key": in(keys),
		"_id": bson.M{"$lt": claims[len(claims)-1].Position, "$nin": orEmpty(req.Held)},
		"$or": bson.A{bson.M{"_id": bson.M{"$lte": req.Above}}, bson.M{"row.message.tenant": in(req.Without)}},
	}, sorted("_id").SetProjection(only("row.topic", "row.key")))
	if err != nil {
		return nil, err
	}
	first := make(map[[2]string]int64)
	for _, r := range slices.Backward(earlier) {
		first[[2]string{r.Row.Topic, r.Row.Key}] = r.ID
	}
	return slices.DeleteFunc(claims, func(c contract.Claim) bool {
		position, stays := first[[2]string{c.Message.Address(), c.Message.Key}]
		return stays && position < c.Position
	}), nil
}
