package consumer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// named is a delivery of which only the message's id matters.
type named struct {
	contract.Delivery
	id    string
	again bool
}

func (n named) Message() (*waybill.Message, error) { return &waybill.Message{ID: n.id}, nil }
func (n named) Redelivered() bool                  { return n.again }

func idsOf(groups []group) []string {
	var ids []string
	for _, g := range groups {
		for _, d := range g.list {
			m, _ := d.Message()
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func TestLines(t *testing.T) {
	t.Parallel()
	q := newLines()
	for _, d := range []struct {
		key, id string
		again   bool
	}{{"a", "a1", false}, {"", "x", false}, {"a", "a2", false}, {"b", "b1", true}, {"a", "a3", false}, {"b", "b2", false}, {"", "y", false}} {
		if !q.add(d.key, newHeld(named{id: d.id, again: d.again})) {
			t.Fatal("the lines are closed")
		}
	}
	take := func(n int, want ...string) []group {
		t.Helper()
		groups := q.take(n)
		if got := idsOf(groups); !slices.Equal(got, want) {
			t.Fatalf("take(%d) = %v, want %v", n, got, want)
		}
		return groups
	}
	first := take(2, "a1", "a2") // those behind them have to wait for their line
	second := take(10, "x")      // and b1 comes alone
	third := take(10, "b1")
	fourth := take(10, "y")
	take(10)
	first[0].list = first[0].list[1:] // a1 is done, a2 is to blame
	first[0].list[0].most = 1
	q.finish(first)
	alone := take(10, "a2")
	alone[0].list = nil
	third[0].list = nil
	q.finish(third)
	q.finish(alone)
	take(10, "b2", "a3")
	q.add("a", newHeld(named{id: "a4"}))
	take(10) // a3 is being handled
	for _, g := range [][]group{second, fourth} {
		g[0].list = nil
		q.finish(g)
	}
	ctx, cancel := context.WithCancel(t.Context())
	q.open(ctx)
	q.add("c", newHeld(named{id: "c1"}))
	if left := q.close(t.Context()); len(left) != 0 {
		t.Errorf("close() = %d deliveries at the end of an earlier period, want none", len(left))
	}
	cancel()
	if left := q.close(ctx); len(left) != 1 || q.add("c", left[0]) {
		t.Errorf("close() = %d deliveries, want the one that waits, and no more are taken", len(left))
	}
}

// TestLines_Pause: a line of which something is being handled goes on in the next period; without one it ends.
func TestLines_Pause(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		q := newLines()
		ctx, cancel := context.WithCancel(t.Context())
		q.open(ctx)
		deliver := func(id string) bool { return q.add("a", newHeld(named{id: id})) }
		deliver("a1")
		groups := q.take(1)
		cancel()
		if left := q.close(ctx); len(left) != 0 || !deliver("a2") {
			t.Errorf("close() = %d deliveries, want none, and a2 waits behind a1", len(left))
		}
		if resumed {
			q.open(t.Context())
		}
		groups[0].list = nil
		want := []string{"a2"}
		left := q.finish(groups)
		if next := idsOf(q.take(1)); resumed && (len(left) != 0 || !slices.Equal(next, want)) {
			t.Errorf("resumed: finish() = %d deliveries, next is %v, want a2", len(left), next)
		}
		if got := idsOf([]group{{list: left}}); !resumed && (!slices.Equal(got, want) || deliver("a3")) {
			t.Errorf("not resumed: finish() = %v, want a2, and no more are taken", got)
		}
	}
}

// TestShrink: of a batch in which one fails, and it is not known which, the others are handled in few and large
// batches; after an outage or a timeout each goes alone at once.
func TestShrink(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	for _, tt := range []struct {
		err              error
		batches, handled int // at most
	}{
		{refused, 15, 300},
		{waybill.UnavailableError(refused), 101, 200},
		{fmt.Errorf("the handler: %w", context.DeadlineExceeded), 101, 200},
	} {
		for failing := range 100 {
			q := newLines()
			for i := range 100 {
				q.add("", newHeld(named{id: strconv.Itoa(i)}))
			}
			batches, handled, alone := 0, 0, false
			for groups := q.take(100); len(groups) > 0; groups = q.take(100) {
				ids := idsOf(groups)
				batches, handled = batches+1, handled+len(ids)
				var members []member
				for i := range groups {
					members = append(members, member{held: groups[i].list[0]})
				}
				switch fails := slices.Contains(ids, strconv.Itoa(failing)); {
				case fails && len(ids) > 1:
					shrink(members, tt.err)
				default:
					alone = alone || fails
					for i := range groups {
						groups[i].list = nil
					}
				}
				q.finish(groups)
			}
			if batches > tt.batches || handled > tt.handled || !alone {
				t.Errorf("%v: message %d of 100 fails: %d batches of %d messages, alone in the end: %t, want at most %d and %d",
					tt.err, failing, batches, handled, alone, tt.batches, tt.handled)
			}
		}
	}
}
