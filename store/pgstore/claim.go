package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// ClaimMessages implements [contract.Source]: with one statement for a page of the outbox, most
// often. If something waits there is one more for that, if req.Due is set, and one more if there are keys
// that the store does not know to have nothing waiting. Claims of one store object run one after the other.
func (s *engine[Tx]) ClaimMessages(ctx context.Context, req contract.ClaimRequest) (claims []contract.Claim, err error) {
	if len(req.Lanes) == 0 {
		return []contract.Claim{}, nil
	}
	select {
	case s.claiming <- struct{}{}:
		defer func() { <-s.claiming }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
		c := claimer[Tx]{engine: s, conn: conn, req: req}
		claims, err = c.claim(ctx)
		return err
	})
	if err != nil {
		s.cursors.forget() // what was read and not returned must be read again
		return nil, s.core.Kind(fmt.Errorf("claim messages: %w", err))
	}
	s.sleeper.found(len(claims), time.Now())
	return claims, nil
}

// claimer makes one claim.
type claimer[Tx any] struct {
	*engine[Tx]
	conn  sqldb.Conn
	req   contract.ClaimRequest
	waits bool // whether anything waits, as the last page has shown
}

// claim reads what is due before what was never tried if something waited at the previous claim, else after
// it, if the page shows that something waits now.
func (c *claimer[Tx]) claim(ctx context.Context) (claims []contract.Claim, err error) {
	c.cursors.begin(c.req.Lanes, c.req.Again)
	if c.req.Due && (c.waited || c.req.DueOnly) {
		if claims, err = c.claimDue(ctx, c.req); err != nil || c.req.Full(claims) || c.req.DueOnly {
			return claims, err
		}
	}
	ready, err := c.claimReady(ctx, rest(c.req, claims))
	if err == nil && c.waits {
		err = c.markBlocked(ctx, ready)
	}
	if err == nil && c.req.Due && !c.waited && c.waits && !c.req.Full(ready) {
		claims, err = c.claimDue(ctx, rest(c.req, ready))
	}
	c.waited = c.waits
	if err != nil || len(claims) == 0 {
		return ready, err
	}
	return append(claims, ready...), nil
}

// rest is what a request, which is not full, leaves for another statement.
func rest(req contract.ClaimRequest, claims []contract.Claim) contract.ClaimRequest {
	req.Limit, req.Bytes = req.Limit-len(claims), req.Left(claims)
	return req
}

// timestamp lets pgx write a time where it belongs.
type timestamp struct{ *sqldb.Time }

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (t timestamp) ScanTimestamptz(v pgtype.Timestamptz) error {
	if t.Time.Time = v.Time; v.InfinityModifier != pgtype.Finite {
		return errors.New("a time is infinite")
	}
	return nil
}

func newClaimScanner(lanes []contract.Lane, first ...any) *sqlstore.ClaimScanner {
	return sqlstore.NewClaimScanner(lanes, first...).Times(func(t *sqldb.Time) any { return timestamp{t} })
}

// stoppable returns a context for a query that may be cancelled before its end. That costs the connection,
// and so is left out in a transaction.
func (c *claimer[Tx]) stoppable(ctx context.Context) (context.Context, func()) {
	if c.db.plain.Load() {
		return context.WithCancel(ctx)
	}
	return ctx, func() {}
}

func numbersAndEpochs(lanes []contract.Lane) ([]int, []int64) {
	return column(lanes, func(l contract.Lane) int { return l.Number }), column(lanes, func(l contract.Lane) int64 { return l.Epoch })
}

func (c *claimer[Tx]) claimDue(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	numbers, epochs := numbersAndEpochs(req.Lanes)
	positions, held := req.HeldWaiting()
	rows, err := c.conn.Query(ctx, c.sql.ClaimDue, numbers, req.Limit, append([]string{}, req.Paused...), positions, held, epochs)
	due, err := newClaimScanner(req.Lanes).Read([]contract.Claim{}, req.Bytes, stop, rows, err)
	for i := range due {
		due[i].Waiting = true
	}
	return due, err
}

// claimReady reads a page, and once more if the first one can't be used.
func (c *claimer[Tx]) claimReady(ctx context.Context, req contract.ClaimRequest) ([]contract.Claim, error) {
	for patience := youngWriter; ; patience *= 64 { // an old writer has ended: suspect older ones, too
		p := c.cursors.page(req.Lanes, req.Limit, patience, time.Now())
		claims, seen, err := c.readPage(ctx, p, req.Bytes)
		if err != nil {
			return nil, err
		}
		if req.Full(claims) {
			p.limit = len(claims) // what is behind the last of them was not read
		}
		c.waits = seen.Waits
		if c.cursors.took(p, claims, seen, time.Now()) {
			return claims, nil
		}
	}
}

// readPage reads a page, up to a number of bytes.
func (c *claimer[Tx]) readPage(ctx context.Context, p page, bytes int) (claims []contract.Claim, seen look, err error) {
	ctx, stop := c.stoppable(ctx)
	defer stop()
	least := slices.Min(p.from)
	held := slices.DeleteFunc(append([]int64{}, c.req.Held...), func(n int64) bool { return n <= least })
	numbers, epochs := numbersAndEpochs(p.lanes)
	rows, err := c.conn.Query(ctx, c.sql.ClaimPage, numbers, p.from, p.limit, held, least, epochs)
	if err != nil {
		return nil, seen, err
	}
	scanner := newClaimScanner(p.lanes, new(any)) // the look, NULL in the row of a message
	if seen, err = scanLook(rows, scanner.Columns()); err != nil {
		rows.Close()
		return nil, seen, err
	}
	claims, err = scanner.Read(make([]contract.Claim, 0, c.expected(p.limit)), bytes, stop, rows, nil)
	c.found = len(claims)
	return claims, seen, err
}

// expected returns how many rows a page will probably have: about as many as the previous one.
func (c *claimer[Tx]) expected(limit int) int { return min(limit, c.found+c.found/4) }

// scanLook reads the first row of a page, which has the look in its first column.
func scanLook(rows sqldb.Rows, columns int) (seen look, err error) {
	if !rows.Next() {
		return seen, errors.Join(rows.Err(), errors.New("a page without a look"))
	}
	var text string
	dest := []any{&text}
	for len(dest) < columns {
		dest = append(dest, new(any))
	}
	if err = rows.Scan(dest...); err != nil {
		return seen, err
	}
	return seen, json.Unmarshal([]byte(text), &seen)
}

// markBlocked marks the claims of units of which something waits.
func (c *claimer[Tx]) markBlocked(ctx context.Context, claims []contract.Claim) error {
	units := c.clean.unknown(claims)
	blocked := make(map[cleanUnit]bool)
	if len(units) > 0 {
		rows, err := c.conn.Query(ctx, c.sql.ClaimBlocked,
			column(units, func(u cleanUnit) string { return u.topic }), column(units, func(u cleanUnit) string { return u.key }))
		numbers, err := sqldb.Collect(rows, err, sqldb.Scan[int])
		if err != nil {
			return err
		}
		for _, n := range numbers {
			blocked[units[n-1]] = true
		}
	}
	c.clean.add(slices.DeleteFunc(units, func(u cleanUnit) bool { return blocked[u] }))
	for i := range claims {
		claims[i].Blocked = blocked[cleanUnitOf(&claims[i])]
	}
	return nil
}
