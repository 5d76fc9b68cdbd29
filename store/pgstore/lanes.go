package pgstore

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/relay"
)

// Renewals of one schema run one after the other (lockLanesSQL), so that none sees another's
// half-done work; each is a few statements every two seconds.
const lockLanesSQL = `SELECT pg_advisory_xact_lock(hashtext($1))`

const (
	joinSQL = `
INSERT INTO {relays} (node, started_at, expires_at)
VALUES ($1, {clock}(), {clock}() + $2 * interval '1 millisecond')
ON CONFLICT (node) DO NOTHING`

	// renewSQL changes no row if others have seen the lease expire.
	renewSQL = `UPDATE {relays} SET expires_at = {clock}() + $2 * interval '1 millisecond' WHERE node = $1`

	reapSQL = `DELETE FROM {relays} WHERE expires_at <= {clock}() AND node <> $1`

	freeLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner NOT IN (SELECT node FROM {relays})`

	giveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1 AND lane = ANY ($2::int[])`

	// takeLanesSQL takes free lanes up to the even share; the epoch rises.
	takeLanesSQL = `
UPDATE {relay_lanes} SET owner = $1, epoch = epoch + 1, since = {clock}()
 WHERE lane IN (SELECT lane FROM {relay_lanes} WHERE owner IS NULL ORDER BY lane
                 LIMIT greatest(0, (SELECT ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays}))) FROM {relay_lanes})
                                 - (SELECT count(*) FROM {relay_lanes} WHERE owner = $1))::bigint)`

	// lanesSQL returns the share beside each lane, and once for a node without lanes.
	lanesSQL = `
SELECT l.lane, l.epoch, s.share
  FROM (SELECT ceil(count(*)::numeric / greatest(1, (SELECT count(*) FROM {relays})))::int AS share FROM {relay_lanes}) s
  LEFT JOIN {relay_lanes} l ON l.owner = $1
 ORDER BY l.lane`

	leaveLanesSQL = `UPDATE {relay_lanes} SET owner = NULL, since = NULL WHERE owner = $1`
	leaveSQL      = `DELETE FROM {relays} WHERE node = $1`
)

// RenewLanes implements [relay.Source].
func (s *Store[Tx]) RenewLanes(ctx context.Context, req relay.LeaseRequest) (lease relay.Lease, err error) {
	err = sqldb.InTx(ctx, s.db, func(tx Tx) (err error) {
		lease, err = s.renew(ctx, s.db.On(tx), req)
		return err
	})
	if err != nil {
		return relay.Lease{}, classify(fmt.Errorf("renew lanes: %w", err))
	}
	return lease, nil
}

func (s *Store[Tx]) renew(ctx context.Context, conn sqldb.Conn, req relay.LeaseRequest) (relay.Lease, error) {
	if _, err := conn.Exec(ctx, lockLanesSQL, "waybill lanes "+s.names.render("{relay_lanes}")); err != nil {
		return relay.Lease{}, err
	}
	if req.Join {
		if _, err := conn.Exec(ctx, s.sql.join, req.Node, millis(req.TTL)); err != nil {
			return relay.Lease{}, err
		}
	}
	n, err := conn.Exec(ctx, s.sql.renew, req.Node, millis(req.TTL))
	if err != nil {
		return relay.Lease{}, err
	}
	if n == 0 {
		return relay.Lease{}, waybill.ErrLeaseLost
	}
	for _, step := range []struct {
		sql  string
		args []any
	}{
		{s.sql.reap, []any{req.Node}},
		{s.sql.freeLanes, nil},
		{s.sql.giveLanes, []any{req.Node, append([]int{}, req.Give...)}},
		{s.sql.takeLanes, []any{req.Node}},
	} {
		if _, err := conn.Exec(ctx, step.sql, step.args...); err != nil {
			return relay.Lease{}, err
		}
	}
	return s.readLease(ctx, conn, req.Node)
}

func (s *Store[Tx]) readLease(ctx context.Context, conn sqldb.Conn, node string) (relay.Lease, error) {
	lease := relay.Lease{Lanes: []relay.Lane{}}
	rows, err := conn.Query(ctx, s.sql.lanes, node)
	_, err = sqldb.Collect(rows, err, func(r sqldb.Rows) (struct{}, error) {
		var number, epoch sql.NullInt64
		err := r.Scan(&number, &epoch, &lease.Share)
		if number.Valid {
			lease.Lanes = append(lease.Lanes, relay.Lane{Number: int(number.Int64), Epoch: epoch.Int64})
		}
		return struct{}{}, err
	})
	return lease, err
}

// LeaveLanes implements [relay.Source].
func (s *Store[Tx]) LeaveLanes(ctx context.Context, node string) error {
	return classify(sqldb.InTx(ctx, s.db, func(tx Tx) error {
		conn := s.db.On(tx)
		if _, err := conn.Exec(ctx, s.sql.leaveLanes, node); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, s.sql.leave, node)
		return err
	}))
}

const archiveDaysAhead = 8

// PrepareArchive implements [relay.Source]: it makes the partitions of today and the next
// eight days, with bounds in UTC. A lock that it cannot have within a second is left for
// the next call; until then the default partition takes the rows.
func (s *Store[Tx]) PrepareArchive(ctx context.Context) error {
	rows, err := s.db.Query(ctx, s.names.render(`SELECT {clock}()`))
	now, _, err := sqldb.One(rows, err, sqldb.Scan[time.Time])
	if err != nil {
		return classify(fmt.Errorf("prepare archive: %w", err))
	}
	today := now.UTC().Truncate(24 * time.Hour)
	for day := range archiveDaysAhead + 1 {
		if err := s.addPartition(ctx, today.AddDate(0, 0, day)); err != nil {
			return classify(fmt.Errorf("prepare archive: %w", err))
		}
	}
	return nil
}

func (s *Store[Tx]) addPartition(ctx context.Context, day time.Time) error {
	name := quoteName(s.names.schema) + "." + quoteName(s.names.prefix+"outbox_archive_"+day.Format("20060102"))
	rows, err := s.db.Query(ctx, `SELECT to_regclass($1) IS NOT NULL`, name)
	exists, _, err := sqldb.One(rows, err, sqldb.Scan[bool])
	if err != nil || exists {
		return err
	}
	const layout = "2006-01-02 15:04:05+00"
	stmt := fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
		name, s.names.render("{outbox_archive}"), day.Format(layout), day.AddDate(0, 0, 1).Format(layout))
	return sqldb.InTx(ctx, s.db, func(tx Tx) error {
		conn := s.db.On(tx)
		if _, err := conn.Exec(ctx, `SET LOCAL lock_timeout = '1s'`); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, stmt)
		return err
	})
}
