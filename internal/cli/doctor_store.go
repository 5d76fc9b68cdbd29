package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
)

// limits of what is ok.
const (
	clockLimit   = time.Second
	pendingLimit = time.Minute
)

// checkStore runs the checks of the store; those behind one that fails may be left out. The
// error is about the configuration.
func (e examination) checkStore(ctx context.Context) ([]finding, error) {
	if opener.IsRedis(e.store.URL) {
		return e.checkRedis(ctx)
	}
	store, err := opener.OpenStore(ctx, e.store)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{failing("store", err.Error(), "start it, or correct --store")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	began := time.Now()
	facts, err := store.Facts(ctx)
	if err != nil {
		return []finding{failing("store", err.Error(), "see the database's log")}, nil
	}
	findings := append([]finding{passing("store", facts.Version+" at "+store.Address())}, checkFacts(facts, began, time.Now())...)
	if pg, is := store.(postgres); is {
		findings = append(findings, checkRoute(ctx, pg)...)
		findings = append(findings, checkRights(ctx, pg, facts, e.as)...)
	}
	return append(findings, checkTables(ctx, store)...), nil
}

// checkFacts looks at what the database says of itself, between two moments of ours.
func checkFacts(facts opener.Facts, before, after time.Time) []finding {
	var findings []finding
	if !facts.Clock.IsZero() {
		findings = append(findings, checkClock(facts, before, after))
	}
	if facts.TimeZone != "" {
		findings = append(findings, checkTimeZone(facts.TimeZone))
	}
	if facts.Isolation != "" {
		findings = append(findings, checkIsolation(facts.Isolation))
	}
	if facts.MaxConnections > 0 {
		findings = append(findings, checkConnections(facts))
	}
	return findings
}

// checkClock compares the store's clock with ours, which was read before and after.
func checkClock(facts opener.Facts, before, after time.Time) finding {
	trip := after.Sub(before)
	offset := facts.Clock.Sub(before.Add(trip / 2))
	found := fmt.Sprintf("the store's differs by %v, ±%v", offset.Round(time.Millisecond), (trip / 2).Round(time.Millisecond))
	if offset.Abs() > clockLimit+trip/2 {
		return warning("clock", found, "set both by NTP; the store's decides what is due, ours what logs say")
	}
	return passing("clock", found)
}

func checkTimeZone(zone string) finding {
	if slices.Contains([]string{"UTC", "Etc/UTC", "GMT"}, zone) {
		return passing("time zone", zone)
	}
	return noting("time zone", zone, "instants are stored, so any will do; SQL of your own that cuts them into days should say AT TIME ZONE")
}

func checkIsolation(level string) finding {
	if strings.EqualFold(level, "read committed") {
		return passing("isolation", level+" is the default")
	}
	return warning("isolation", level+" is the default", "waybill's own transactions say READ COMMITTED; repeat yours when they clash (outbox.InTx does)")
}

// checkConnections looks whether there is room for one more process.
func checkConnections(f opener.Facts) finding {
	free, needed := f.MaxConnections-f.Connections, f.PoolSize+1
	found := fmt.Sprintf("%d of %d are open; a relay opens up to %d, %d of them in its pool", f.Connections, f.MaxConnections, needed, f.PoolSize)
	if free < needed {
		return warning("connections", found, "lower pool_max_conns in the store's URL, use a pooler, or raise max_connections")
	}
	return passing("connections", found)
}

// checkTables runs the checks that need the tables.
func checkTables(ctx context.Context, store opener.Store) []finding {
	version, err := store.SchemaVersion(ctx)
	switch {
	case err != nil:
		return []finding{failing("schema", err.Error(), "give the role its rights (waybill roles), or use the release that fits")}
	case version == 0:
		return []finding{failing("schema", "there are no tables", "run: waybill migrate")}
	}
	findings := []finding{checkVersion(version, len(store.Migrations()))}
	pg, isPostgres := store.(postgres)
	if isPostgres {
		findings = append(findings, checkParts(ctx, pg, version)...)
	}
	stats, err := store.OutboxStats(ctx)
	if err != nil {
		return append(findings, failing("outbox", err.Error(), "give the role the rights of a reader: waybill roles"))
	}
	findings = append(findings, checkPending(stats), checkDead(stats))
	findings = append(findings, checkUnroutable(ctx, store)...)
	findings = append(findings, checkSchedules(ctx, store)...)
	if sagas, keeps := store.(saga.Inspector); keeps && version == len(store.Migrations()) {
		findings = append(findings, checkSagas(ctx, sagas)...)
	}
	if isPostgres {
		findings = append(findings, checkCondition(ctx, pg, usualPatience)...)
	}
	return findings
}

func checkVersion(version, newest int) finding {
	if version < newest {
		return warning("schema", fmt.Sprintf("version %d, the newest is %d", version, newest), "run: waybill migrate; relays may go on meanwhile")
	}
	return passing("schema", fmt.Sprintf("version %d, the newest", version))
}

func checkPending(stats []outbox.Stats) finding {
	var count int64
	var oldest time.Duration
	for _, s := range stats {
		if s.Status == outbox.Pending {
			count += s.Count
			oldest = max(oldest, s.Oldest)
		}
	}
	if count == 0 {
		return passing("pending", "no message waits for the relay")
	}
	found := fmt.Sprintf("%s, the oldest is %s old", plural(int(count), "message"), age(oldest))
	if oldest > pendingLimit {
		return warning("pending", found, "is a relay running, and does the broker take what it publishes?")
	}
	return passing("pending", found)
}

func checkDead(stats []outbox.Stats) finding {
	var count int64
	for _, s := range stats {
		if s.Status == outbox.Dead || s.Status == outbox.Failed {
			count += s.Count
		}
	}
	if count == 0 {
		return passing("dead letters", "the relay has given up on no message")
	}
	return warning("dead letters", fmt.Sprintf("the relay has given up on %s", plural(int(count), "message")), "see: waybill dead list")
}

// lettersLooked is how many of the newest letters are looked through for unroutable ones.
const lettersLooked = 1000

// checkUnroutable names the topics that nobody is bound to, as the broker has said. It says
// so of a message only when that is published; so there is nothing to say of other topics.
func checkUnroutable(ctx context.Context, store opener.Store) []finding {
	letters, err := store.DeadLetters(ctx, deadletter.Filter{Origin: deadletter.FromRelay, Newest: true, Limit: lettersLooked})
	if err != nil {
		return []finding{failing("unroutable", err.Error(), "give the role the rights of a reader: waybill roles")}
	}
	topics := make(map[string]int)
	for i := range letters {
		if letters[i].Reason == waybill.ReasonUnroutable {
			topics[letters[i].Message.Address()]++
		}
	}
	var findings []finding
	for topic, count := range topics {
		findings = append(findings, warning("unroutable", fmt.Sprintf("topic %s: %s came back", topic, plural(count, "message")),
			"start a consumer of it, or bind a queue; then: waybill dead requeue"))
	}
	slices.SortFunc(findings, func(a, b finding) int { return strings.Compare(a.Found, b.Found) })
	return findings
}
