package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// ResponseStatements are the SQL texts about stored responses to HTTP requests. Save takes a key,
// the response and the milliseconds for which it is kept, and leaves an existing one that has not
// expired. Find takes a key. Both are served by the primary key.
type ResponseStatements struct{ Save, Find string }

// FindResponse returns the response that is stored under key, and false if there is none or it has
// expired. Package idempotency says what responses are.
func (c *Core[Tx]) FindResponse(ctx context.Context, key string) ([]byte, bool, error) {
	rows, err := c.DB.Query(ctx, c.SQL.Responses.Find, key)
	response, found, err := sqldb.One(rows, err, sqldb.Scan[[]byte])
	if err != nil {
		return nil, false, c.Kind(fmt.Errorf("find a response: %w", err))
	}
	return response, found, nil
}

// SaveResponse stores a response under key for the given time, which is at least a millisecond,
// unless one is stored there already that has not expired. The key follows the rules of
// [lease.ValidateKey].
func (c *Core[Tx]) SaveResponse(ctx context.Context, key string, response []byte, ttl time.Duration) error {
	if ttl < time.Millisecond {
		return &waybill.InvalidError{Field: "ttl", Reason: fmt.Sprintf("is %v; it must be at least a millisecond", ttl)}
	}
	if err := lease.ValidateKey(key); err != nil {
		return err
	}
	if response == nil {
		response = []byte{} // nil would be NULL
	}
	err := c.alone(ctx, func(conn sqldb.Conn) error {
		_, err := conn.Exec(ctx, c.SQL.Responses.Save, key, response, Millis(ttl))
		return err
	})
	if err != nil {
		return fmt.Errorf("save a response: %w", err)
	}
	return nil
}
