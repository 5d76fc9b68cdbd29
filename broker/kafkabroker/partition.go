package kafkabroker

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waybill-go/waybill/contract"
)

// place is one partition of a Kafka topic.
type place struct {
	topic     string
	partition int32
}

// partition tracks the records of one partition while it is assigned. Offsets are committed up
// to the first record that is not acknowledged and no further: a message that waits for its
// retry is not skipped because later ones succeeded. It is guarded by its run.
type partition struct {
	place
	member *member

	// oldBelow is where the partition ended when it was assigned: the group may have received
	// what is before it.
	oldBelow int64

	// taken is how far the partition is processed, nil if only Kafka knows. If it is set,
	// records are handed out one by one.
	taken   *contract.Progress
	begun   bool  // the first of them has arrived
	reached int64 // behind the last one

	records []*delivery // in order of arrival, from the first that is not acknowledged on
	next    kgo.EpochOffset
	paused  bool
	leaving bool // no more of it is handed out
	gone    bool // it was revoked, or its run has ended
}

// begin continues from the stored progress of the partition.
func (p *partition) begin(taken contract.Progress) { p.taken, p.reached = &taken, taken.Next }

// back reports whether a record has the offset of one that is done: the topic has lost that one,
// or was recreated.
func (p *partition) back(r *kgo.Record) bool { return p.taken != nil && r.Offset < p.reached }

// add tracks one more record, and reports whether it may be handed out now.
func (p *partition) add(d *delivery) bool {
	d.first, p.begun = !p.begun, true
	p.reached = d.record.Offset + 1
	p.records = append(p.records, d)
	return p.taken == nil || len(p.records) == 1
}

// skip tracks a record that is not a message.
func (p *partition) skip(d *delivery) {
	d.state = acknowledged
	p.reached = d.record.Offset + 1
	p.records = append(p.records, d)
}

// following returns the record that may be handed out now that p has advanced, nil if none waits
// for that.
func (p *partition) following() *delivery {
	if p.taken == nil || p.leaving || len(p.records) == 0 {
		return nil
	}
	return p.records[0]
}

// old reports whether a record may have been delivered before. In a partition with stored
// progress only the first one may have been, and those that only an inbox knows about.
func (p *partition) old(d *delivery) bool {
	if p.taken != nil {
		return d.first || d.record.Offset < p.taken.RecordedBelow
	}
	return d.record.Offset < p.oldBelow
}

// advance drops what is acknowledged from the front, and reports whether there is a new offset
// to commit: p.next.
func (p *partition) advance() bool {
	n := 0
	for n < len(p.records) && p.records[n].state == acknowledged {
		r := p.records[n].record
		p.next = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
		p.records[n] = nil
		n++
	}
	p.records = p.records[n:]
	return n > 0
}

// handedOut counts the records that somebody is working on.
func (p *partition) handedOut() int {
	n := 0
	for _, d := range p.records {
		if d.state == handed {
			n++
		}
	}
	return n
}

// retire ends handing out: pending retries are cancelled.
func (p *partition) retire() {
	p.leaving = true
	for _, d := range p.records {
		if d.timer != nil {
			d.timer.Stop()
		}
	}
}

// flow reports whether fetching p is to be paused, or resumed, because of what it holds. A
// paused partition is resumed when half of the window is free.
func (p *partition) flow(window int) (pause, resume bool) {
	switch n := len(p.records); {
	case !p.paused && n >= window:
		p.paused = true
		return true, false
	case p.paused && n <= window/2:
		p.paused = false
		return false, true
	}
	return false, false
}
