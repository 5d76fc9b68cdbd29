package sqlstore

import (
	"database/sql"

	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/relay"
)

// ClaimScan returns the scan function for claims of the given lanes: lane, position,
// destination, attempts, life, blocked, milliseconds until it is due or NULL, expired, and
// the message.
func ClaimScan(lanes []relay.Lane) func(sqldb.Rows) (relay.Claim, error) {
	byNumber := make(map[int]relay.Lane, len(lanes))
	for _, l := range lanes {
		byNumber[l.Number] = l
	}
	return func(r sqldb.Rows) (c relay.Claim, err error) {
		var lane int
		var delay sql.NullFloat64
		var row sqldb.MessageRow
		dest := append([]any{&lane, &c.Position, &c.Destination, &c.Attempts, &c.Life, &c.Blocked, &delay, &c.Expired}, row.Dest()...)
		if err := r.Scan(dest...); err != nil {
			return c, err
		}
		c.Lane, c.DelayFor = byNumber[lane], fromMillis(delay.Float64)
		c.Message, c.Malformed = row.Message()
		return c, nil
	}
}
