package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// clockLimit is how much the store's clock may differ from ours.
const clockLimit = time.Second

const storeSubject = "store"

// checkStore runs the checks of the store; those after one that fails may be skipped. The
// error is about the configuration.
func (e examination) checkStore(ctx context.Context) ([]finding, error) {
	if opener.IsRedis(e.store.URL) {
		return e.checkRedis(ctx)
	}
	store, err := opener.OpenStore(ctx, e.store)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{unreadable(storeSubject, err.Error(), "start it, or correct --store")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	began := time.Now()
	facts, err := store.Facts(ctx)
	if err != nil {
		return []finding{unreadable(storeSubject, err.Error(), "see the database's log")}, nil
	}
	findings := append([]finding{passing(storeSubject, facts.Version+" at "+store.Address())}, checkFacts(facts, began, time.Now())...)
	findings = append(findings, checkFile(opener.SQLiteFile(e.store.URL))...)
	jobs := e.jobs()
	if pg, is := store.(postgres); is {
		rights, fit := checkRights(ctx, pg, facts, e.as)
		findings = slices.Concat(findings, checkRoute(ctx, pg), rights)
		if e.as == "" {
			jobs = fit
		}
	}
	return append(findings, tables{store: store, jobs: jobs, url: e.store.URL}.check(ctx)...), nil
}

// jobs are those of --as; nil if the flag is not given.
func (e examination) jobs() []pgadmin.Role {
	if e.as == "" {
		return nil
	}
	return []pgadmin.Role{e.as}
}

// checkFacts checks what the database reports about itself, read between two moments of our
// clock.
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

// checkFile checks who may read the file of an SQLite store; path is "" for other stores.
func checkFile(path string) []finding {
	info, err := os.Stat(path)
	if path == "" || err != nil || runtime.GOOS == "windows" || info.Mode().Perm()&0o007 == 0 {
		return nil
	}
	return []finding{warning("file", fmt.Sprintf("%s has mode %04o: every user of the machine may read or change it, payloads included", path, info.Mode().Perm()),
		"chmod o-rwx it, and its -wal and -shm if they are there")}
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

// checkConnections checks whether there is room for one more process.
func checkConnections(f opener.Facts) finding {
	free, needed := f.MaxConnections-f.Connections, f.PoolSize+1
	found := fmt.Sprintf("%d of %d are open; a relay opens up to %d, %d of them in its pool", f.Connections, f.MaxConnections, needed, f.PoolSize)
	if free < needed {
		return warning("connections", found, "lower pool_max_conns in the store's URL, use a pooler, or raise max_connections")
	}
	return passing("connections", found)
}

// lettersLooked is how many of the newest dead letters are searched for unroutable ones.
const lettersLooked = 1000

// checkUnroutable names the topics that nobody is bound to, as the broker has reported. It
// reports that only for a published message; so nothing is known about other topics.
func (t *tables) checkUnroutable(ctx context.Context) []finding {
	letters, err := t.store.DeadLetters(ctx, deadletter.Filter{Origin: deadletter.FromRelay, Newest: true, Limit: lettersLooked})
	if err != nil {
		return t.unread("unroutable", err)
	}
	topics := make(map[string]int)
	for i := range letters {
		if letters[i].Reason == waybill.ReasonUnroutable {
			topics[letters[i].Message.Address()]++
		}
	}
	var findings []finding
	for topic, count := range topics {
		findings = append(findings, warning("unroutable", fmt.Sprintf("topic %s: %s came back", topic, ops.Plural(count, "message")),
			"start a consumer of it, or bind a queue; then: waybill dead requeue").on(topic))
	}
	slices.SortFunc(findings, func(a, b finding) int { return strings.Compare(a.Found, b.Found) })
	return findings
}
