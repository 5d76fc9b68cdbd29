package dashboard

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

// TestReplay_Idle shows that the page of a replay, and the overview, say when nothing seems
// to drive it.
func TestReplay_Idle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := full()
		f.replay = deadletter.Replay{Number: 7, State: deadletter.Running, Letters: 100, StartedAt: time.Now()}
		f.relays = []inspect.RelayState{{Node: "gone"}}
		d := newDashboard(t, testConfig(t, f))
		see := func(when, want, not string) {
			t.Helper()
			for _, path := range []string{"/replays/7", "/"} {
				body := asked{path: path, token: secrets["reader"]}.send(d).Body.String()
				if want != "" && !strings.Contains(body, want) || not != "" && strings.Contains(body, not) {
					t.Errorf("%s, %s: want %q, not %q", path, when, want, not)
				}
			}
		}
		const nothing = "Nothing was requeued"
		see("at its start", "", nothing)
		time.Sleep(ops.IdleAfter)
		see("without a relay", nothing+" for 15s: no relay is alive", "")
		f.replay.Requeued = 5
		see("when it goes on", "", nothing)
		time.Sleep(ops.IdleAfter - time.Second)
		see("a little later", "", nothing)
		f.relays[0].Alive = true
		time.Sleep(time.Second)
		see("with a relay that does nothing", nothing+" for 15s. Relays drive replays unless", "no relay is alive")
		f.replay.Skipped = 3
		see("when it skips", "", nothing)
		time.Sleep(time.Hour)
		f.replay.Plan.Rate = 0.01 // a letter in 100 seconds
		f.replay.Requeued = 6
		see("a slow one", "", nothing)
		time.Sleep(299 * time.Second)
		see("a slow one, later", "", nothing)
		time.Sleep(2 * time.Second)
		see("a slow one that is stuck", nothing, "")
		f.replay.State = deadletter.Done
		see("when it has ended", "", nothing)
		if len(d.replayed.seen) != 0 {
			t.Errorf("replays that have ended are remembered: %v", d.replayed.seen)
		}
	})
}
