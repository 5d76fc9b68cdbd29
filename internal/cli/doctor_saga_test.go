package cli

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill/saga"
)

// counted is a store that knows how many instances there are.
type counted struct {
	saga.Inspector
	counts []saga.Count
	err    error
}

func (c counted) SagaCounts(context.Context) ([]saga.Count, error) { return c.counts, c.err }

func TestCheckSagas(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name  string
		store counted
		want  []finding
	}{
		{"none was started", counted{}, nil},
		{"all is well", counted{counts: []saga.Count{
			{Saga: "order", Status: saga.Running, Count: 2, Idle: 7 * day}, {Saga: "order", Status: saga.Completed, Count: 9},
			{Saga: "trip", Status: saga.Compensating, Count: 1},
		}}, []finding{passing("sagas", "3 instances in progress, none is stuck")}},
		{"stuck, and idle for long", counted{counts: []saga.Count{
			{Saga: "order", Status: saga.Running, Count: 2, Idle: 8 * day}, {Saga: "order", Status: saga.Stuck, Count: 1, Idle: 90 * time.Minute},
			{Saga: "order", Status: saga.Compensated, Count: 5, Idle: 90 * day},
		}}, []finding{
			warning("sagas", "2 instances of order running, one of them without a change for 8d",
				"do they wait for a message that is lost? see: waybill saga list --saga order --status running").on("order running"),
			warning("sagas", "1 instance of order stuck, the first for 1h30m",
				"fix the cause that waybill saga list --status stuck shows; then: waybill saga resume").on("order stuck"),
		}},
		{"no right to look", counted{err: errors.New("permission denied")},
			[]finding{unreadable("sagas", "permission denied", "give the role the rights of a reader: waybill roles")}},
	} {
		got := checkSagas(t.Context(), tt.store)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %+v, want %+v", tt.name, got[i], tt.want[i])
			}
		}
	}
}
