package main

import (
	"math"
	"math/bits"
)

// sketch estimates how many different numbers were added to it (HyperLogLog, Flajolet et al. 2007), to
// within two percent.
type sketch struct{ most [4096]uint8 }

func newSketch() *sketch { return &sketch{} }

func (s *sketch) add(hash uint64) {
	zeros := uint8(bits.LeadingZeros64(hash<<12|1<<11)) + 1
	at := hash >> 52
	s.most[at] = max(s.most[at], zeros)
}

func (s *sketch) join(o *sketch) {
	for i, n := range o.most {
		s.most[i] = max(s.most[i], n)
	}
}

// count returns the estimate.
func (s *sketch) count() int {
	sum, empty := 0.0, 0
	for _, n := range s.most {
		sum += math.Pow(2, -float64(n))
		if n == 0 {
			empty++
		}
	}
	m := float64(len(s.most))
	if estimate := 0.7213 / (1 + 1.079/m) * m * m / sum; estimate > 2.5*m || empty == 0 {
		return int(estimate)
	}
	return int(m * math.Log(m/float64(empty)))
}

// state returns a number for what the system is doing, whatever the time and the names of messages are:
// where each message is in the store, and what each relay owns and holds.
func (w *world) state() uint64 {
	h := uint64(len(w.store.dead))<<40 | uint64(len(w.store.open))<<20 | uint64(len(w.store.scheduled))<<1 | bit(w.broker.away)
	for _, r := range w.store.rows {
		flags := bit(r.waits) | bit(r.due == never)<<1 | bit(r.alone)<<2 | bit(r.key != "")<<3
		h = mix(h ^ uint64(r.lane)<<32 ^ uint64(r.attempts)<<16 ^ uint64(r.life)<<8 ^ flags)
	}
	for _, l := range w.store.lanes {
		h = mix(h ^ uint64(len(l.owner)))
	}
	for _, n := range w.relays {
		s := n.core.Stats()
		h = mix(h ^ uint64(s.Lanes)<<48 ^ uint64(s.Held)<<24 ^ uint64(len(n.flights))<<8 ^ bit(n.waiting)<<1 ^ bit(w.now < n.resume))
	}
	for _, c := range w.broker.consumers {
		h = mix(h ^ uint64(len(c.queue))<<32 ^ uint64(len(c.out))<<16 ^ uint64(len(c.open)))
	}
	return mix(h)
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// mix spreads a number over all its bits.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
