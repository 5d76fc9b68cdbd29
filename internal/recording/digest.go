package recording

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/waybill-go/waybill/internal/relaycore"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// digester computes checksums of commands, of everything that the shell carries out and reports:
// messages by their rows, errors by whether there is one.
type digester struct{ buf []byte }

// sum returns the checksum of a step: its commands, and the latest time of the next step.
func (d *digester) sum(commands []relaycore.Command, next relaycore.Time, in *batches) uint32 {
	d.buf = d.buf[:0]
	for _, cmd := range commands {
		d.command(cmd, in)
	}
	d.int(int64(next))
	return crc32.Checksum(d.buf, castagnoli)
}

func (d *digester) command(cmd relaycore.Command, in *batches) {
	switch cmd := cmd.(type) {
	case relaycore.Renew:
		d.buf = append(d.buf, 'r', bit(cmd.Join))
		d.ints(cmd.Give)
	case relaycore.Release:
		d.buf = append(d.buf, 'l')
		d.int(int64(cmd.Limit))
	case relaycore.Count:
		d.buf = append(d.buf, 'n')
		d.lanes(cmd.Lanes)
	case relaycore.Claim:
		d.claim(&cmd)
	case relaycore.ClaimAhead:
		d.claimAhead(&cmd)
	case relaycore.Await:
		d.buf = append(d.buf, 'a')
		d.int(int64(cmd.Until))
	case relaycore.EndAwait:
		d.buf = append(d.buf, 'e')
	case relaycore.Publish:
		d.publish(cmd.Batch)
	case relaycore.Cut:
		d.buf = append(d.buf, 'x')
		d.int(int64(in.numbers[cmd.Batch]))
	case relaycore.Settle:
		d.buf = append(d.buf, 's')
		d.int(int64(len(cmd.Settlements)))
		for i := range cmd.Settlements {
			d.settlement(&cmd.Settlements[i])
		}
	case relaycore.Report:
		d.report(&cmd)
	}
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (d *digester) int(v int64) { d.buf = binary.AppendVarint(d.buf, v) }

func (d *digester) ints(list []int) {
	d.int(int64(len(list)))
	for _, n := range list {
		d.int(int64(n))
	}
}

func (d *digester) text(s string) {
	d.int(int64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digester) texts(list []string) {
	d.int(int64(len(list)))
	for _, s := range list {
		d.text(s)
	}
}

func (d *digester) lanes(list []relaycore.Lane) {
	d.int(int64(len(list)))
	for _, l := range list {
		d.int(int64(l.Number))
		d.int(l.Epoch)
	}
}

func (d *digester) claim(cmd *relaycore.Claim) {
	d.buf = append(d.buf, 'c', bit(cmd.Due), bit(cmd.DueOnly))
	d.lanes(cmd.Lanes)
	d.int(int64(cmd.Limit))
	d.int(int64(cmd.Bytes))
	d.ints(cmd.Again)
	d.texts(cmd.Paused)
	d.positions(cmd.Held)
	for _, p := range slices.Sorted(maps.Keys(cmd.HeldFor)) {
		d.int(p)
		d.texts(cmd.HeldFor[p])
	}
}

func (d *digester) claimAhead(cmd *relaycore.ClaimAhead) {
	d.buf = append(d.buf, 'h')
	d.lanes(cmd.Lanes)
	d.texts(cmd.Without)
	d.int(cmd.Above)
	d.int(cmd.Span)
	d.int(int64(cmd.Limit))
	d.int(int64(cmd.Bytes))
	d.positions(cmd.Held)
}

func (d *digester) positions(ascending []int64) {
	last := int64(0)
	d.int(int64(len(ascending)))
	for _, p := range ascending {
		d.int(p - last)
		last = p
	}
}

func (d *digester) publish(b *relaycore.Batch) {
	d.buf = append(d.buf, 'p', bit(b.Alone))
	d.text(b.Dest)
	d.int(int64(b.Limit))
	d.int(int64(len(b.Messages)))
	for _, m := range b.Messages {
		d.buf = append(d.buf, bit(m.Resent))
		d.int(m.Position)
		d.int(int64(m.Life))
	}
}

func (d *digester) settlement(st *relaycore.Settlement) {
	plain := st.After == 0 && st.Attempts == 0 && st.Life == 0 && st.Reason == "" && len(st.To) == 0
	bits := bit(st.Behind) | bit(st.Alone)<<1 | bit(st.Park)<<2 | bit(st.Err != nil)<<3 | bit(st.Message.Deferred)<<4 | bit(plain)<<5
	d.buf = append(d.buf, byte(st.Outcome), bits)
	d.int(st.Message.Position)
	d.text(st.Message.Dest)
	d.int(int64(st.Took))
	if plain {
		return
	}
	d.int(int64(st.After))
	d.int(int64(st.Attempts))
	d.int(int64(st.Life))
	d.text(string(st.Reason))
	d.texts(st.To)
}

func (d *digester) report(r *relaycore.Report) {
	d.buf = append(d.buf, 'o', byte(r.What), bit(r.Err != nil))
	d.text(r.Dest)
	d.text(r.Topic)
	d.int(int64(r.Count))
	d.int(int64(r.Delay))
	d.int(int64(r.Took))
	d.int(int64(len(r.Messages)))
	for _, m := range r.Messages {
		d.int(m.Position)
	}
	if r.Settlement != nil {
		d.int(r.Settlement.Message.Position)
	}
}
