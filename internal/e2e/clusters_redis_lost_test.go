package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill/internal/redisurl"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
)

// TestCluster_RedisClusterAsynchronous has masters fail whose replicas have not received the last messages, and nothing
// waits for replicas: what is lost is as docs/guarantees.md says, and is published again from the archive.
//
//test:cluster
func TestCluster_RedisClusterAsynchronous(t *testing.T) { newRedisCluster(t).tellOfLosses(t) }

// TestCluster_RedisSentinelAsynchronous does the same with Sentinels.
//
//test:cluster
func TestCluster_RedisSentinelAsynchronous(t *testing.T) { newRedisSentinel(t).tellOfLosses(t) }

// lostEach is about how many messages a master takes that is to be lost with them.
const lostEach = 60

// lag is the time from which on a master was alone with what it took, to when its successor had replicas.
type lag struct{ from, until time.Time }

func (r *redisServers) tellOfLosses(t *testing.T) {
	w, b := plainWorld(t), r.settings(0)
	r.declare(t, b)
	var lags []lag
	c := cluster{hurt: func(rng *rand.Rand) string {
		lags = append(lags, lag{from: w.clock(t)})
		return r.loseMaster(w, rng, "SELECT count(*) FROM "+w.table("outbox_archive"))
	}, mend: func() {
		r.mend()
		lags[len(lags)-1].until = w.clock(t)
	}}
	s := c.run(t, w, b)
	defer s.killAll()
	w.awaitPublished(t)
	r.awaitDelivered(t, b)
	lost := w.checkLost(t, lags)
	again := w.publishAgain(t, lags)
	t.Logf("%d orders, of which %d had no effect, %d were published again, interruptions: %v", w.number(t, "SELECT count(*) FROM "+w.table("orders")), lost, again, s.done)
	w.awaitEffects(t)
	s.killAll()
	w.checkNothingElse(t)
}

// loseMaster lets a master take messages that neither a replica nor a consumer gets, until there are that many more by the
// count, and takes it away.
func (r *redisServers) loseMaster(w *world, rng *rand.Rand, count string) string {
	r.t.Helper()
	before := r.mastersNow()
	port := before[rng.IntN(len(before))]
	must(r.t, r.ask(port, "ACL", "SETUSER", "default", "-psync", "-sync", "-xreadgroup").Err())
	must(r.t, r.ask(port, "CLIENT", "KILL", "TYPE", "replica").Err())
	least := w.number(r.t, count) + lostEach
	eventually(r.t, "there are more", func() bool { return w.number(r.t, count) >= least })
	what := hurtAny([]*ownserver.Server{r.nodes[port]})(rng)
	r.awaitFailover(before)
	return what + ", a master without replicas"
}

// awaitDelivered waits until the group has received and acknowledged all that the streams hold.
func (r *redisServers) awaitDelivered(t *testing.T, b brokerSettings) {
	t.Helper()
	client := r.client()
	defer client.Close()
	for _, topic := range b.topics() {
		stream := topicStream(b, topic)
		within(t, 6*patience, "the group is done with "+stream, func() bool {
			groups, err := client.XInfoGroups(t.Context(), stream).Result()
			last, err2 := client.XInfoStream(t.Context(), stream).Result()
			return err == nil && err2 == nil && groups[0].Pending == 0 && groups[0].LastDeliveredID == last.LastGeneratedID
		})
	}
}

// client returns one of whatever the URL names.
func (r *redisServers) client() redis.UniversalClient {
	if o, err := redisurl.Sentinels(r.url); err == nil && o != nil {
		return redis.NewUniversalClient(o)
	}
	o, err := redis.ParseClusterURL(r.url)
	must(r.t, err)
	return redis.NewClusterClient(o)
}

// clock returns the time of the database.
func (w *world) clock(t *testing.T) (now time.Time) {
	t.Helper()
	must(t, w.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&now))
	return now
}

// checkLost returns how many orders have no effect. Each was published while a master was alone with what it took.
func (w *world) checkLost(t *testing.T, lags []lag) int {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), "SELECT id, published_at FROM "+w.table("outbox_archive")+" a WHERE NOT EXISTS (SELECT 1 FROM "+w.table("effects")+" e WHERE e.message_id = a.id)")
	must(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		var id string
		var at time.Time
		must(t, rows.Scan(&id, &at))
		n++
		if !slices.ContainsFunc(lags, func(l lag) bool { return at.After(l.from) && at.Before(l.until) }) {
			t.Errorf("%s, published at %v, is lost, although no master was alone with it: %v", id, at, lags)
		}
	}
	must(t, rows.Err())
	if n == 0 {
		t.Error("nothing was lost: the story shows nothing")
	}
	return n
}

// publishAgain enqueues once more, under the same ids, what was published in these times: docs/runbooks.md has the statement.
func (w *world) publishAgain(t *testing.T, lags []lag) (n int) {
	t.Helper()
	const columns = `topic, direct, key, id, type, source, tenant, subject, payload, payload_bytes, content_type, data_schema, headers,
		correlation_id, causation_id, idempotency_key, trace_parent, trace_state, expires_at`
	for _, l := range lags {
		tag, err := w.pool.Exec(t.Context(), fmt.Sprintf(`INSERT INTO %s (%s, time) SELECT %[2]s, coalesce(time, enqueued_at) FROM %s
			WHERE published_at BETWEEN $1 AND $2 ORDER BY published_at, position ON CONFLICT DO NOTHING`,
			w.table("outbox"), columns, w.table("outbox_archive")), l.from, l.until)
		must(t, err)
		n += int(tag.RowsAffected())
	}
	return n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
