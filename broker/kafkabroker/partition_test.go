package kafkabroker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestPartition_CommitsThePrefix acknowledges out of order, over a gap of offsets.
func TestPartition_CommitsThePrefix(t *testing.T) {
	t.Parallel()
	p := &partition{}
	for _, offset := range []int64{10, 11, 15, 16} {
		p.add(&delivery{partition: p, record: &kgo.Record{Offset: offset, LeaderEpoch: 3}, state: handed})
	}
	list := append([]*delivery(nil), p.records...)
	for _, c := range []struct {
		done int
		next int64 // 0: nothing new to commit
	}{{1, 0}, {3, 0}, {0, 12}, {2, 17}} {
		list[c.done].state = acknowledged
		advanced := p.advance()
		if advanced != (c.next > 0) || advanced && p.next != (kgo.EpochOffset{Epoch: 3, Offset: c.next}) {
			t.Errorf("record %d acknowledged: advance() = %v, next %+v, want offset %d", c.done, advanced, p.next, c.next)
		}
	}
}

func TestPartition_StandsStillAtAFullWindow(t *testing.T) {
	t.Parallel()
	p := &partition{}
	hold := func(n int) { p.records = make([]*delivery, n) }
	for _, c := range []struct {
		held          int
		pause, resume bool
	}{{9, false, false}, {10, true, false}, {12, false, false}, {6, false, false}, {5, false, true}, {5, false, false}, {11, true, false}} {
		hold(c.held)
		if pause, resume := p.flow(10); pause != c.pause || resume != c.resume {
			t.Errorf("%d held: pause %v, resume %v, want %v, %v", c.held, pause, resume, c.pause, c.resume)
		}
	}
}
