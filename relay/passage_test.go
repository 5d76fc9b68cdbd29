package relay

import (
	"slices"
	"testing"
	"testing/synctest"
)

// TestPassage_InOrder: who wants to be alone waits for those before it, and those after it wait.
func TestPassage_InOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPassage()
		var inside []string
		enter := func(name string, alone bool) {
			go func() {
				p.enter(alone)
				inside = append(inside, name)
			}()
			synctest.Wait()
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(inside, want) {
				t.Fatalf("entered: %v, want %v", inside, want)
			}
		}
		enter("a", false)
		enter("b", false)
		enter("c alone", true)
		enter("d", false)
		enter("e alone", true)
		expect("a", "b")
		p.leave(false)
		expect("a", "b")
		p.leave(false)
		expect("a", "b", "c alone")
		p.leave(true)
		expect("a", "b", "c alone", "d")
		p.leave(false)
		expect("a", "b", "c alone", "d", "e alone")
	})
}
