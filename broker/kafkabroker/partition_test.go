package kafkabroker

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill/contract"
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

// TestMember_BeforeNewClientReturns: the client library gives partitions out in a goroutine of its own, which
// may be ahead of the one that makes the client.
func TestMember_BeforeNewClientReturns(t *testing.T) {
	t.Parallel()
	client, err := kgo.NewClient()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	m := &member{run: &run{broker: new(Broker)}, partitions: make(map[place]*partition)}
	m.assigned(t.Context(), client, nil)
	m.claim(place{}, kgo.NewOffset(), 0)
	m.mark(new(partition))
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

// TestPartition_Taken hands out one record at a time, and none that stands where others did.
func TestPartition_Taken(t *testing.T) {
	t.Parallel()
	p := &partition{}
	if p.back(&kgo.Record{Offset: 0}) {
		t.Error("back() = true of a partition of which nothing is known")
	}
	p.begin(contract.Progress{Next: 5, RecordedBelow: 8})
	for _, c := range []struct {
		offset         int64
		back, now, old bool
	}{{4, true, false, false}, {5, false, true, true}, {5, true, false, false}, {7, false, false, true}, {8, false, false, false}} {
		d := &delivery{partition: p, record: &kgo.Record{Offset: c.offset}}
		if back := p.back(d.record); back != c.back {
			t.Errorf("offset %d: back() = %v, want %v", c.offset, back, c.back)
		}
		if c.back {
			continue
		}
		if now, old := p.add(d), p.old(d); now != c.now || old != c.old {
			t.Errorf("offset %d: add() = %v, old() = %v, want %v, %v", c.offset, now, old, c.now, c.old)
		}
	}
	for _, want := range []int64{7, 8} {
		p.records[0].state = acknowledged
		p.advance()
		if next := p.following(); next == nil || next.record.Offset != want {
			t.Errorf("following() = %+v, want the record at offset %d", next, want)
		}
	}
	p.retire()
	p.records[0].state = acknowledged
	if p.advance(); p.following() != nil {
		t.Error("following() returns a record of a partition that is given back")
	}
}

// TestRun_RoomAfterRevocation: a member that waits for room in the queue goes on when a rebalance takes away what fills it.
func TestRun_RoomAfterRevocation(t *testing.T) {
	t.Parallel()
	r := newRun(new(Broker), 1, nil)
	m := &member{run: r}
	p := &partition{place: place{"t", 0}, member: m}
	m.partitions = map[place]*partition{p.place: p}
	r.queue.Push(&delivery{partition: p})
	full := r.full()
	if full == nil {
		t.Fatal("the queue has room beyond the prefetch")
	}
	m.lost(t.Context(), nil, map[string][]int32{"t": {0}})
	select {
	case <-full:
	default:
		t.Error("the member waits for room although the queue is empty")
	}
	if r.full() != nil || r.queue.Len() > 0 || !p.gone || len(m.partitions) > 0 {
		t.Errorf("%d deliveries of the lost partition are queued, want none", r.queue.Len())
	}
}

// TestDelivery_HandedOnlyWhileAssigned: what Serve takes out of the queue while its partition is revoked is not passed on.
func TestDelivery_HandedOnlyWhileAssigned(t *testing.T) {
	t.Parallel()
	p := &partition{member: &member{run: newRun(new(Broker), 1, nil)}}
	first, second := &delivery{partition: p}, &delivery{partition: p}
	if !first.hand() || first.state != handed {
		t.Errorf("state %v of a delivery that was passed on, want %v", first.state, handed)
	}
	p.retire()
	if second.hand() || second.state != queued {
		t.Errorf("state %v of a delivery whose partition is leaving, want %v", second.state, queued)
	}
}
