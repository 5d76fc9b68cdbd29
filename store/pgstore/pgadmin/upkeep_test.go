package pgadmin

import (
	"maps"
	"testing"
	"time"
)

func TestUpkeepOf(t *testing.T) {
	t.Parallel()
	u := upkeepOf(Condition{DeadRows: 7, DaysReady: 9}, []Holder{
		{Kind: HolderSession, Age: time.Hour, HoldsRows: true, Transactions: 50},
		{Kind: HolderSession, Age: 2 * time.Hour},
		{Kind: HolderPrepared, Age: time.Minute, HoldsRows: true, Transactions: 60, Enqueued: true},
		{Kind: HolderSession, Age: time.Second, HoldsRows: true, Transactions: 3, Enqueued: true},
		{Kind: HolderSlot, HoldsRows: true, Transactions: 200, CatalogOnly: true},
		{Kind: HolderSlot, HoldsRows: true, Transactions: 100},
	})
	if u.DeadRows != 7 || u.ArchiveDays != 9 || u.OldestOpen != 2*time.Hour || u.OldestEnqueued != time.Minute {
		t.Errorf("upkeepOf() = %+v", u)
	}
	want := map[string]int64{"session": 50, "prepared transaction": 60, "replication slot": 200, "standby": 0}
	if !maps.Equal(u.Held, want) {
		t.Errorf("held are %v, want %v", u.Held, want)
	}
	if u := upkeepOf(Condition{}, nil); u.OldestOpen != 0 || u.OldestEnqueued != 0 || len(u.Held) != 4 {
		t.Errorf("with nothing open: %+v", u)
	}
}
