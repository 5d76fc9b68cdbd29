package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/janitor"
)

// LeaseStatements are the SQL texts of the lease contract. Those that change a key lock its row,
// decide by its content then, and leave it as it is where they may not change it. The answer
// follows from the row as it is afterwards.
//
// Each returns rows with the columns key, lease_id, owner, token, attempts, whether it is
// processed, whether it cannot be begun, because it is leased or waits, the milliseconds for which
// that lasts, first seen, last seen, the end of the lease, NULL once the key is released or
// processed, when it is due, NULL unless it was released with a wait, and the hash of the payload,
// empty if it is not known.
type LeaseStatements struct {
	// Returns says that a statement returns the row whether it has changed it or not, so that no
	// row means an unknown key. Without it a statement may return none, because it did not change
	// the row or the database cannot return rows: Read then follows in the same transaction, in
	// which no other one may have changed the row.
	Returns bool `sql:"-"`

	// Begin takes key, id, owner, milliseconds, the limit of attempts, 0 for none, and the hash
	// of the payload, which may be empty. It inserts the row with token and attempt 1, or changes
	// it if the key is not leased, does not wait and the limit is not reached: id, owner and hash,
	// next token, one attempt more, no time when it is due. The row may have had that id before,
	// if the request was made before.
	//
	// BeginAll does it for many keys and returns a row for each, in any order; it takes an
	// array for each of these arguments. It locks rows in the order of their keys, so that
	// two batches do not wait for each other. Empty if Begin is to be run for each key, in one
	// transaction.
	Begin    string
	BeginAll string `sql:",optional"`

	// Settle takes key, id, whether the key is processed, else it is released, how many attempts
	// to take back, and the milliseconds that the key waits, 0 for none. It changes the row if
	// that is the id of a lease that is neither released nor processed. Renew likewise takes key,
	// id and milliseconds. MarkAll takes arrays of keys and ids, is to Settle what BeginAll is to
	// Begin, and may be empty.
	Settle, Renew string
	MarkAll       string `sql:",optional"`

	Read string // takes a key
}

// TryBegin implements [lease.Store].
func (c *Core[Tx]) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	answers, err := c.TryBeginAll(ctx, []lease.Request{req})
	if err != nil {
		return lease.Answer{}, err
	}
	return answers[0], nil
}

// TryBeginAll implements [lease.BatchStore].
func (c *Core[Tx]) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	keys := make([]string, len(reqs))
	for i := range reqs {
		if err := reqs[i].Validate(); err != nil {
			return nil, err
		}
		keys[i] = reqs[i].Key
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	b := newLeaseBegin(reqs)
	rows, err := c.changeLeases(ctx, leaseBatch{
		keys: keys, one: c.SQL.Leases.Begin, row: b.row, all: c.SQL.Leases.BeginAll, columns: b.columns(),
	})
	if err != nil {
		return nil, fmt.Errorf("begin %d keys: %w", len(reqs), err)
	}
	answers := make([]lease.Answer, len(reqs))
	for i, req := range reqs {
		answers[i] = rows[req.Key].begun(b.ids[i], req)
	}
	return answers, nil
}

// leaseBegin are the arguments of Begin, for each of several keys.
type leaseBegin struct {
	keys, ids, owners, hashes []string
	millis                    []float64
	limits                    []int
}

func newLeaseBegin(reqs []lease.Request) leaseBegin {
	var b leaseBegin
	for _, r := range reqs {
		b.keys, b.ids, b.owners = append(b.keys, r.Key), append(b.ids, r.LeaseID()), append(b.owners, r.Owner)
		b.millis, b.limits = append(b.millis, Millis(r.TTL)), append(b.limits, min(r.MaxAttempts, math.MaxInt32))
		b.hashes = append(b.hashes, r.PayloadHash)
	}
	return b
}

func (b leaseBegin) columns() []any {
	return []any{b.keys, b.ids, b.owners, b.millis, b.limits, b.hashes}
}

func (b leaseBegin) row(i int) []any {
	return []any{b.keys[i], b.ids[i], b.owners[i], b.millis[i], b.limits[i], b.hashes[i]}
}

// MarkProcessed implements [lease.Store].
func (c *Core[Tx]) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	row, err := c.changeLease(ctx, c.SQL.Leases.Settle, l, markArgs...)
	if err != nil {
		return "", fmt.Errorf("mark a key: %w", err)
	}
	return row.settled(l.ID), nil
}

// markArgs are the arguments of Settle, after key and id, for a key that is processed.
var markArgs = []any{true, 0, 0.0}

// MarkAllProcessed implements [lease.BatchStore].
func (c *Core[Tx]) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	keys, ids := make([]string, len(leases)), make([]string, len(leases))
	for i, l := range leases {
		if err := lease.ValidateKey(l.Key); err != nil {
			return nil, err
		}
		keys[i], ids[i] = l.Key, leaseID(l)
	}
	if err := lease.ValidateBatch(keys); err != nil {
		return nil, err
	}
	row := func(i int) []any { return append([]any{keys[i], ids[i]}, markArgs...) }
	rows, err := c.changeLeases(ctx, leaseBatch{
		keys: keys, one: c.SQL.Leases.Settle, row: row, all: c.SQL.Leases.MarkAll, columns: []any{keys, ids},
	})
	if err != nil {
		return nil, fmt.Errorf("mark %d keys: %w", len(leases), err)
	}
	statuses := make([]lease.Status, len(leases))
	for i, l := range leases {
		statuses[i] = rows[l.Key].settled(l.ID)
	}
	return statuses, nil
}

// ReleaseLease implements [lease.Store].
func (c *Core[Tx]) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	back := 0
	if r.Uncounted {
		back = 1
	}
	row, err := c.changeLease(ctx, c.SQL.Leases.Settle, l, false, back, Millis(r.Wait))
	if err != nil {
		return "", fmt.Errorf("release a key: %w", err)
	}
	return row.settled(l.ID), nil
}

// RenewLease implements [lease.Store].
func (c *Core[Tx]) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := lease.ValidateTTL(ttl); err != nil {
		return lease.Answer{}, err
	}
	row, err := c.changeLease(ctx, c.SQL.Leases.Renew, l, Millis(ttl))
	if err != nil {
		return lease.Answer{}, fmt.Errorf("renew a lease: %w", err)
	}
	switch status := row.settled(l.ID); status {
	case lease.Acquired:
		return row.lasting(status), nil
	case lease.Lost:
		return lease.Answer{Status: status}, nil
	default:
		return lease.Answer{Status: status, Attempts: row.attempts}, nil
	}
}

// ReadLease implements [lease.Store].
func (c *Core[Tx]) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Record{}, err
	}
	row, err := readLease(ctx, c.DB, c.SQL.Leases.Read, key)
	if err != nil {
		return lease.Record{}, c.Kind(fmt.Errorf("read a key: %w", err))
	}
	return row.record(), nil
}

// PurgeLeases implements [lease.Store]. It does nothing while a janitor removes leases.
func (c *Core[Tx]) PurgeLeases(ctx context.Context, retention time.Duration, limit int) (int, error) {
	n, err := c.PurgeExpired(ctx, janitor.Rows{Kind: janitor.Leases, OlderThan: retention}, max(limit, 0))
	if errors.Is(err, janitor.ErrBusy) {
		return 0, nil
	}
	return int(n), err
}

// changeLease runs a statement about one lease, with args after key and id.
func (c *Core[Tx]) changeLease(ctx context.Context, stmt string, l lease.Lease, args ...any) (row leaseRow, err error) {
	if err := lease.ValidateKey(l.Key); err != nil {
		return row, err
	}
	err = c.alone(ctx, func(conn sqldb.Conn) (err error) {
		row, err = c.leaseRow(ctx, conn, stmt, append([]any{l.Key, leaseID(l)}, args...)...)
		return err
	})
	return row, err
}

// leaseBatch is a change of several keys.
type leaseBatch struct {
	keys    []string
	one     string            // the statement for one key
	row     func(i int) []any // its arguments, for the key at a place
	all     string            // for several keys; may be empty
	columns []any             // its arguments
}

// changeLeases runs the statement for all keys, or that for one for each key in their order,
// and returns the rows by their keys.
func (c *Core[Tx]) changeLeases(ctx context.Context, b leaseBatch) (map[string]leaseRow, error) {
	rows := make(map[string]leaseRow, len(b.keys))
	if len(b.keys) == 0 {
		return rows, nil
	}
	err := c.alone(ctx, func(conn sqldb.Conn) error {
		if len(b.keys) > 1 && b.all != "" {
			result, err := conn.Query(ctx, b.all, b.columns...)
			list, err := sqldb.Collect(result, err, scanLease)
			for _, r := range list {
				rows[r.key] = r
			}
			return err
		}
		for _, i := range sortedPlaces(b.keys) {
			row, err := c.leaseRow(ctx, conn, b.one, b.row(i)...)
			if err != nil {
				return err
			}
			rows[b.keys[i]] = row
		}
		return nil
	})
	return rows, err
}

// sortedPlaces returns the places of keys in their order, in which all transactions lock them.
func sortedPlaces(keys []string) []int {
	places := make([]int, len(keys))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return places
}

// leaseRow runs a statement about the key that is its first argument and returns the row, an
// empty one if there is none.
func (c *Core[Tx]) leaseRow(ctx context.Context, conn sqldb.Conn, stmt string, args ...any) (leaseRow, error) {
	rows, err := conn.Query(ctx, stmt, args...)
	row, found, err := sqldb.One(rows, err, scanLease)
	if err != nil || found || c.SQL.Leases.Returns {
		return row, err
	}
	return readLease(ctx, conn, c.SQL.Leases.Read, args[0])
}

func readLease(ctx context.Context, conn sqldb.Conn, stmt string, key any) (leaseRow, error) {
	rows, err := conn.Query(ctx, stmt, key)
	row, _, err := sqldb.One(rows, err, scanLease)
	return row, err
}
