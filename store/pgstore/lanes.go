package pgstore

// lockLanesSQL makes the renewals of one schema run one after the other.
func lockLanesSQL(n names) string {
	return `SELECT pg_advisory_xact_lock(hashtext(` + quoteText("waybill lanes "+n.render("{relay_lanes}")) + `))`
}

// The statements of a renewal.
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
