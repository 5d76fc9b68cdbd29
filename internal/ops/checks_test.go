package ops_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

func TestCheckPending(t *testing.T) {
	t.Parallel()
	late := []inspect.Stats{{Status: inspect.Pending, Count: 1, Oldest: time.Hour}, {Status: inspect.Scheduled, Count: 9, Oldest: -time.Hour}}
	if got := ops.CheckPending(late, false); got.Severity != ops.Warning || !strings.Contains(got.Advice, "is a relay running?") {
		t.Errorf("late without a relay: %+v", got)
	}
	if got := ops.CheckPending(late, true); got.Severity != ops.Warning || !strings.Contains(got.Advice, "a relay is alive") {
		t.Errorf("late with a relay: %+v", got)
	}
	if got := ops.CheckPending(late[1:], true); got.Severity != ops.OK {
		t.Errorf("with what is not due only: %+v", got)
	}
}

func TestCheckDead(t *testing.T) {
	t.Parallel()
	stats := []inspect.Stats{{Status: inspect.Dead, Count: 120}, {Status: inspect.Failed, Consumer: "billing", Count: 4500}}
	for i := range 6 {
		stats = append(stats, inspect.Stats{Status: inspect.Dead, Consumer: fmt.Sprint("c", i), Count: 1})
	}
	want := "4,626 open letters: 4,500 of consumer billing, 120 of the relay, 1 of consumer c0, 1 of consumer c1, 1 of consumer c2, others of 3 consumers"
	if got := ops.CheckDead(stats); got.Severity != ops.Warning || got.Found != want {
		t.Errorf("found %q, want %q", got.Found, want)
	}
}
