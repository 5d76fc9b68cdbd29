package sqlstore

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// LeastOfKey is the number of waiting messages of a key that a claim reads if many keys wait. If few do, it
// reads of each the share that its limit has room for.
const LeastOfKey = 10

// Leaders returns the first of each unit among waiting claims that may take what is behind it along: those that
// have a key and have not failed since they were released.
func Leaders(claims []contract.Claim) (leaders []*contract.Claim) {
	first := make(map[settleplan.Unit]*contract.Claim)
	for i := range claims {
		c := &claims[i]
		if c.Message.Key == "" || c.Attempts > 0 || c.Malformed != nil {
			continue
		}
		u := settleplan.Unit{Topic: c.Message.Address(), Key: c.Message.Key, Destination: c.Destination}
		if f := first[u]; f == nil || c.Position < f.Position {
			first[u] = c
		}
	}
	leaders = slices.Collect(maps.Values(first))
	slices.SortFunc(leaders, func(a, b *contract.Claim) int { return cmp.Compare(a.Position, b.Position) })
	return leaders
}

// ClaimScanner reads claims. It is used for one result at a time: what it scans into is used
// again for each row.
type ClaimScanner struct {
	lanes map[int]contract.Lane
	lane  int
	claim contract.Claim
	delay sql.NullFloat64
	left  sql.NullFloat64
	row   sqldb.MessageRow
	dest  []any
}

// NewClaimScanner returns a scanner for claims of the given lanes. What is in the first
// columns, before those of a claim, goes where first says.
func NewClaimScanner(lanes []contract.Lane, first ...any) *ClaimScanner {
	s := &ClaimScanner{lanes: make(map[int]contract.Lane, len(lanes))}
	for _, l := range lanes {
		s.lanes[l.Number] = l
	}
	c := &s.claim
	s.dest = slices.Concat(first,
		[]any{&s.lane, &c.Position, &c.Destination, &c.Attempts, &c.Life, &c.Blocked, &s.delay, &s.left}, s.row.Dest())
	return s
}

// Times makes the scanner read times into what by returns instead of [database/sql.Scanner]s, which cost three
// allocations each.
func (s *ClaimScanner) Times(by func(*sqldb.Time) any) *ClaimScanner {
	for i, d := range s.dest {
		if t, ok := d.(*sqldb.Time); ok {
			s.dest[i] = by(t)
		}
	}
	return s
}

// Read appends the claims that a query returns to list, until the payloads of the list have as many bytes as
// limit, unless that is 0. What the server would send beyond is then not waited for: stop, which ends
// the query and may end its connection with it, is called first if it is not nil.
func (s *ClaimScanner) Read(list []contract.Claim, limit int, stop func(), rows sqldb.Rows, err error) ([]contract.Claim, error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	bytes := 0
	for i := range list {
		bytes += len(list[i].Message.Payload)
	}
	for rows.Next() {
		c, err := s.Scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
		if bytes += len(c.Message.Payload); limit > 0 && bytes >= limit {
			if stop != nil {
				stop()
			}
			return list, nil
		}
	}
	return list, rows.Err()
}

// Columns returns the number of columns that [ClaimScanner.Scan] reads.
func (s *ClaimScanner) Columns() int { return len(s.dest) }

// Scan reads one claim: lane, position, destination, attempts, life, blocked, milliseconds
// until it is due or NULL, milliseconds until it expires or NULL, and the message.
func (s *ClaimScanner) Scan(r sqldb.Rows) (contract.Claim, error) {
	if err := r.Scan(s.dest...); err != nil {
		return contract.Claim{}, err
	}
	c := s.claim
	c.Lane, c.DelayFor = s.lanes[s.lane], fromMillis(s.delay.Float64)
	c.Expired, c.ExpiresIn = s.left.Valid && s.left.Float64 <= 0, fromMillis(max(0, s.left.Float64))
	c.Message, c.Malformed = s.row.Message()
	return c, nil
}

// AheadEnd returns up to which position a look ahead reads. The query returns one row: the first position above
// that of the request and the last one of all, NULL if there is none.
func AheadEnd(req contract.AheadRequest, rows sqldb.Rows, err error) (upTo int64, _ error) {
	upTo, _, err = sqldb.One(rows, err, func(rows sqldb.Rows) (int64, error) {
		var first, last sql.NullInt64
		err := rows.Scan(&first, &last)
		return min(first.Int64+req.Span-1, last.Int64), err
	})
	return upTo, err
}
