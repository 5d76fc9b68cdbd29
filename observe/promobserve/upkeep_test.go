package promobserve

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inspect"
)

type fixedUpkeep inspect.Upkeep

func (u fixedUpkeep) OutboxUpkeep(context.Context) (inspect.Upkeep, error) {
	return inspect.Upkeep(u), nil
}

func TestCollector_Upkeep(t *testing.T) {
	t.Parallel()
	got := gathered(t, NewCollector(CollectorConfig{Upkeep: fixedUpkeep{
		DeadRows: 7, OldestOpen: time.Minute, OldestEnqueued: time.Second, Held: map[string]int64{"session": 5, "replication slot": 0}, ArchiveDays: 9,
	}}))
	for name, want := range map[string]float64{
		"waybill_database_dead_rows": 7, "waybill_database_archive_days": 9,
		"waybill_database_oldest_transaction_age_seconds false": 60, "waybill_database_oldest_transaction_age_seconds true": 1,
		"waybill_database_held_transactions session": 5, "waybill_database_held_transactions replication slot": 0,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v (%v), want %v", name, v, ok, want)
		}
	}
}
