package sagatest

import (
	"testing"
	"time"

	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/store/memstore"
	"github.com/waybill-go/waybill/waybilltest"
)

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("the diagram is\n%s\nwant\n%s", got, want)
	}
}

func TestDiagram_Rules(t *testing.T) {
	t.Parallel()
	wantText(t, rules(t, memstore.New()).Diagram(), `stateDiagram-v2
    state "unpaid" as s1
    state "any state" as s2
    [*] --> s1: placed
    s1 --> [*]: paid
    s2 --> s2: changed
    s1 --> [*]: timeout payment
`)
}

func TestDiagram_Steps(t *testing.T) {
	t.Parallel()
	wantText(t, withSteps(t, memstore.New(), saga.Config{}, well).Diagram(), `stateDiagram-v2
    state "started" as s1
    state "any state" as s2
    state "reserve" as s3
    state "charge" as s4
    state "reserve undone" as s5
    state "charge undone" as s6
    state "ship" as s7
    [*] --> s1: placed
    s2 --> s2: charged
    s2 --> s2: refused
    s1 --> s3: step reserve
    s1 --> [*]: reserve fails
    s3 --> s4: step charge
    s3 --> s5: charge fails
    s4 --> s5: charge fails
    s4 --> s6: timeout step charge
    s4 --> s7: step ship
    s4 --> s6: ship fails
    s7 --> [*]: completed
    s6 --> s5: undo reserve
    s5 --> [*]: compensated
`)
}

func TestDiagramOf(t *testing.T) {
	t.Parallel()
	inKit(t, func(t *testing.T, store saga.Store[tx]) *orders {
		return withSteps(t, store, saga.Config{}, refused)
	}, func(t *testing.T, k *waybilltest.Kit) {
		k.Enqueue(message("placed", "a"))
		k.Enqueue(message("charged", "a"))
		k.Advance(time.Minute)
		log, err := k.Store.SagaLog(t.Context(), idOf("a"), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		wantText(t, saga.DiagramOf(log), `stateDiagram-v2
    state "started" as s1
    state "reserve" as s2
    state "charge" as s3
    state "charge undone" as s4
    state "reserve undone" as s5
    [*] --> s1: 1 placed
    s1 --> s2: 2 step reserve
    s2 --> s3: 3 step charge
    s3 --> s3: 4 charged
    s3 --> s3: 5 step ship failed
    s3 --> s4: 6 undo charge
    s4 --> s5: 7 undo reserve
    s5 --> [*]: compensated
`)
	})
}

// TestDiagramOf_Stuck ends where the instance does, and takes names that Mermaid would not.
func TestDiagramOf_Stuck(t *testing.T) {
	t.Parallel()
	wantText(t, saga.DiagramOf([]saga.Entry{
		{Version: 1, To: `"end": <b>`, MessageType: "a;b", Status: saga.Running},
		{Version: 2, From: `"end": <b>`, To: "charge", Note: "step charge could not be undone", Status: saga.Stuck},
	}), `stateDiagram-v2
    state "_end__ _b_" as s1
    state "charge" as s2
    state "stuck" as s3
    [*] --> s1: 1 a_b
    s1 --> s2: 2 step charge could not be undone
    s2 --> s3: stuck
`)
}
