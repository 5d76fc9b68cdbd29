package pgstore

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// briefly makes the server end a transaction in which its program stands still: stopped, it
// would keep its locks, and others could not renew their leases. It is part of the first
// statement of a relay's transaction, and true.
const briefly = `set_config('idle_in_transaction_session_timeout', '2s', true) <> ''`

const brieflySQL = `SELECT ` + briefly

// lockLanesSQL makes the renewals of one schema that change lanes run one after the other.
func lockLanesSQL(n names) string {
	return n.render(`SELECT name FROM {locks} WHERE (SELECT ` + briefly + `) AND name = 'lanes' FOR UPDATE`)
}

// The statements of a renewal.
const (
	joinSQL = `
INSERT INTO {relays} (node, started_at, expires_at, lease_ms)
VALUES ($1, {clock}(), {clock}() + $2 * interval '1 millisecond', $2)
ON CONFLICT (node) DO NOTHING`

	// renewSQL changes no row if others have seen the lease expire.
	renewSQL = `UPDATE {relays} SET expires_at = {clock}() + $2 * interval '1 millisecond', lease_ms = $2 WHERE node = $1`

	// possible is the latest time until which a lease may be now.
	possible = `{clock}() + lease_ms * interval '1 millisecond'`

	cutLeasesSQL = `UPDATE {relays} SET expires_at = ` + possible + ` WHERE expires_at > ` + possible

	reapSQL = `DELETE FROM {relays} WHERE expires_at <= {clock}() AND node <> $1`

	freeLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner NOT IN (SELECT node FROM {relays})`

	giveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane = ANY ($2::int[])`

	// takeLanesSQL takes free lanes up to the even share; the epoch rises.
	takeLanesSQL = `
UPDATE {relay_lanes} SET owner = $1, epoch = epoch + 1, since = {clock}()
 WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane
                 LIMIT greatest(0, (SELECT ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays}))) FROM {relay_lanes})
                                 - (SELECT count(*) FROM {relay_lanes} WHERE owner = $1))::bigint)`

	share = `ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays})))::int`

	// lanesSQL returns share and total beside each lane, and once for a node without lanes.
	lanesSQL = `
SELECT l.lane, l.epoch, s.share, s.total
  FROM (SELECT ` + share + ` AS share, count(*)::int AS total FROM {relay_lanes}) s
  LEFT JOIN {relay_lanes} l ON l.owner = $1
 ORDER BY l.lane`

	// extendLeaseSQL renews and reads at once, and tells whether somebody's lease has expired
	// or lanes are free to be taken. It takes no lock but that of its own row, for which it
	// waits while another relay deletes it; then there is no row, and the lanes are lost. It
	// may read lanes as they were before it waited: while its row stands they are its own.
	extendLeaseSQL = `
WITH renewed AS (
    UPDATE {relays} SET expires_at = {clock}() + $2 * interval '1 millisecond', lease_ms = $2 WHERE node = $1 RETURNING node
), s AS (
    SELECT ` + share + ` AS share, count(*)::int AS total, count(*) FILTER (WHERE owner = $1) AS own,
           coalesce(bool_or(owner IS NULL OR owner NOT IN (SELECT node FROM {relays})), false) AS free
      FROM {relay_lanes}
)
SELECT l.lane, l.epoch, s.share, s.total,
       s.free AND s.own < s.share OR EXISTS (SELECT FROM {relays} r WHERE r.node <> $1 AND (r.expires_at <= (SELECT {clock}()) OR r.expires_at > ` + possible + `))
  FROM renewed CROSS JOIN s LEFT JOIN {relay_lanes} l ON l.owner = renewed.node
 ORDER BY l.lane`

	leaveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1`
	leaveSQL      = `DELETE FROM {relays} WHERE node = $1`
)

// RenewLanes implements [contract.Source]: with one statement if nothing is to change hands.
func (s *Store[Tx]) RenewLanes(ctx context.Context, req contract.LeaseRequest) (contract.Lease, error) {
	if !req.Join && len(req.Give) == 0 {
		lease, changes, err := s.extendLease(ctx, req)
		if err != nil || !changes {
			return lease, s.core.Kind(err)
		}
	}
	return s.core.RenewLanes(ctx, req)
}

// extendLease also reports whether there is more to do: a relay to reap, or lanes to take.
func (s *Store[Tx]) extendLease(ctx context.Context, req contract.LeaseRequest) (lease contract.Lease, changes bool, err error) {
	err = s.db.run(ctx, func(conn sqldb.Conn) (err error) {
		rows, err := conn.Query(ctx, s.sql.extendLease, req.Node, sqlstore.Millis(req.TTL))
		lease, err = sqlstore.ScanLease(rows, err, &changes)
		return err
	})
	if err == nil && lease.Total == 0 {
		err = waybill.ErrLeaseLost
	}
	if err != nil {
		return contract.Lease{}, false, fmt.Errorf("extend lease: %w", err)
	}
	return lease, changes, nil
}
