package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/saga"
)

// sagaIdleLimit is how long an instance may go without a change before it is reported. Many
// wait for days, on purpose.
const sagaIdleLimit = 7 * 24 * time.Hour

// checkSagas names the sagas with instances that somebody should look at. If no instance
// was ever started it returns nothing.
func checkSagas(ctx context.Context, store saga.Inspector) []finding {
	counts, err := store.SagaCounts(ctx)
	if err != nil {
		return []finding{unreadable("sagas", err.Error(), "give the role the rights of a reader: waybill roles")}
	}
	var findings []finding
	var open int64
	for _, n := range counts {
		if !n.Status.Ended() {
			open += n.Count
		}
		if f, bad := checkSaga(n); bad {
			findings = append(findings, f)
		}
	}
	if len(counts) > 0 && len(findings) == 0 {
		return []finding{passing("sagas", ops.Plural(open, "instance")+" in progress, none is stuck")}
	}
	return findings
}

// checkSaga checks the instances of one saga with one status.
func checkSaga(n saga.Count) (_ finding, bad bool) {
	switch {
	case n.Count == 0:
	case n.Status == saga.Stuck:
		return warning("sagas", fmt.Sprintf("%s of %s stuck, the first for %s", ops.Plural(n.Count, "instance"), clean(n.Saga), ops.Age(n.Idle)),
			"fix the cause that waybill saga list --status stuck shows; then: waybill saga resume").on(aboutSaga(n)), true
	case !n.Status.Ended() && n.Idle > sagaIdleLimit:
		return warning("sagas", fmt.Sprintf("%s of %s %s, one of them without a change for %s", ops.Plural(n.Count, "instance"), clean(n.Saga), n.Status, ops.Age(n.Idle)),
			fmt.Sprintf("do they wait for a message that is lost? see: waybill saga list --saga %s --status %s", quoted(n.Saga), n.Status)).on(aboutSaga(n)), true
	}
	return finding{}, false
}

func aboutSaga(n saga.Count) string { return n.Saga + " " + string(n.Status) }
