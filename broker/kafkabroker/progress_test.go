package kafkabroker

import (
	"encoding/binary"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

func numberedID(n int) (id rowID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// TestProgress_Cut keeps the newest ids, at least as many as the window has, whatever the size of
// the entries.
func TestProgress_Cut(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1, 7, 1000, 10_000} {
		p := newProgress()
		p.add(0, nil) // a mark
		n := 0
		for offset := int64(1); n < 3*progressWindow; offset++ {
			ids := make([]rowID, size)
			for i := range ids {
				ids[i] = numberedID(n)
				n++
			}
			p.add(offset, ids)
			before, cut := p.cut()
			first := n - p.count
			if len(p.known) != p.count || p.count >= progressWindow+progressStep+size || first > max(0, n-progressWindow) {
				t.Fatalf("entries of %d: %d ids are known of %d, %d counted", size, len(p.known), n, p.count)
			}
			if cut && before != p.entries[0].offset {
				t.Fatalf("entries of %d: cut before %d, the first that is kept is %d", size, before, p.entries[0].offset)
			}
			for _, i := range []int{first, n - 1} {
				if !p.has(numberedID(i)) {
					t.Fatalf("entries of %d: id %d of %d is not known", size, i, n)
				}
			}
			if first > 0 && p.has(numberedID(first-1)) {
				t.Fatalf("entries of %d: id %d of %d is still known", size, first-1, n)
			}
		}
	}
}

func TestProgress_Record(t *testing.T) {
	t.Parallel()
	a := idOf(contract.Outgoing{Message: &waybill.Message{}, DedupID: "a", Row: contract.Row{Position: 1}})
	b := idOf(contract.Outgoing{Message: &waybill.Message{}, DedupID: "a", Row: contract.Row{Position: 1, Destination: "d"}})
	if a == b {
		t.Error("rows of two destinations have one id")
	}
	r := progressRecord("t", 5, []rowID{a, b})
	if got := idsOf(r); len(got) != 2 || got[0] != a || got[1] != b || r.Partition != 5 {
		t.Errorf("partition %d, ids %x, want 5, %x and %x", r.Partition, got, a, b)
	}
	r.Value = r.Value[:20]
	if got := idsOf(r); len(got) != 1 || got[0] != a {
		t.Errorf("ids %x of a record that was cut off, want %x", got, a)
	}
}
