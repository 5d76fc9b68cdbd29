package recording

import (
	"fmt"
	"strings"
	"testing"
)

// TestStep_Lines: whatever becomes of messages is printed, of those that are asked for only.
func TestStep_Lines(t *testing.T) {
	t.Parallel()
	var told, wanted strings.Builder
	for seed := range uint64(8) {
		file := &memory{}
		d := newDriver(seed, record(file, 4<<20, true))
		d.run(2000)
		_ = d.w.Close()
		one := &Filter{Topic: "t1"}
		_, err := Replay(file, func(s *Step) error {
			for _, line := range s.Lines(&Filter{}) {
				fmt.Fprintln(&told, line)
			}
			for _, line := range s.Lines(one) {
				fmt.Fprintln(&wanted, line)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		"the relay begins", "the lease is renewed: ", "the lease is not renewed: unavailable error", "messages are claimed", "a claim fails", " is answered: ",
		"outcomes are stored", "outcomes are not stored: unavailable error", "→ send batch ", "→ store ", "→ claim up to ", "→ own ", "→ drop what is held",
	} {
		if !strings.Contains(told.String(), text) {
			t.Errorf("no step is printed with %q", text)
		}
	}
	for _, text := range []string{
		"topic t1, key customer-", "tenant tenant-", "it has waited and is due", "an earlier message of its key waits or is parked", "it cannot be decoded",
		"it has expired", "it is due in 1m0s", "its destination could not be asked", "no destination matches it", "it goes to a, b, c", "requeued 1 times",
		" is accepted (batch ", "refused: permanent, unroutable", "taken for a copy", "the connection was lost", "to be sent again in 1s", ", again",
		": published", "it follows to c", "it waits behind an earlier message", "it waits until it is due", "a row for each of a, b, c", "its key is parked behind it",
		"its outcome is stored", "its outcome is not stored yet", "→ pause ", "answers again",
	} {
		if !strings.Contains(wanted.String(), text) {
			t.Errorf("no step of a topic is printed with %q", text)
		}
	}
	for _, other := range []string{"topic t0", "topic t2", "topic t3"} {
		if strings.Contains(wanted.String(), other) {
			t.Errorf("messages of %s are printed, and were not asked for", other)
		}
	}
}

func TestCoder_ID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{
		"0198c0de-0000-7000-8000-0123456789ab", "0198C0DE-0000-7000-8000-0123456789AB", "0198c0de+0000-7000-8000-0123456789ab",
		"0198c0de-0000-7000-8000-0123456789ag", "", "order 7", strings.Repeat("x", 127), strings.Repeat("-", 36), "ÿ198c0de-0000-7000-8000-0123456789a",
	} {
		var raw [16]byte
		if packUUID(&raw, id) {
			if got := unpackUUID(raw[:]); got != id {
				t.Errorf("%q is unpacked as %q", id, got)
			}
		} else if id == "0198c0de-0000-7000-8000-0123456789ab" {
			t.Error("a UUID is not packed")
		}
	}
}
