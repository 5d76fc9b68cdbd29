package storetest

import (
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

func buryTests[Tx any]() []test[Tx] {
	return []test[Tx]{
		{"letter and record", buryLetter[Tx], nil},
		{"twice", buryTwice[Tx], nil},
		{"after it was processed", buryProcessed[Tx], nil},
		{"dead letters disabled", buryFailed[Tx], nil},
		{"without a key", buryNoKey[Tx], nil},
		{"larger than what may be enqueued", buryLarge[Tx], nil},
		{"hostile error texts", buryErrorText[Tx], nil},
		{"by several at once", buryAtOnce[Tx], nil},
	}
}

// letterOf is the dead letter that a consumer makes of m.
func letterOf(consumer string, m waybill.Message) inbox.Letter {
	return inbox.Letter{
		Record: inbox.RecordOf(consumer, &m), Message: m.Storable(),
		Reason: waybill.ReasonExhausted, Error: "card expired", Attempts: 6,
	}
}

func (e *env[Tx]) bury(consumer string, m waybill.Message) {
	e.Helper()
	e.buryAs(letterOf(consumer, m), true)
}

func (e *env[Tx]) buryAs(l inbox.Letter, want bool) {
	e.Helper()
	buried, err := e.s.BuryMessage(e.ctx, l)
	e.must(err, "BuryMessage")
	if buried != want {
		e.Fatalf("BuryMessage() = %v, want %v", buried, want)
	}
}

func (e *env[Tx]) buryWithoutKey(consumer string, m waybill.Message) {
	e.Helper()
	l := letterOf(consumer, m)
	l.Record.Message, l.Reason = "", waybill.ReasonNoID
	e.buryAs(l, true)
}

func buryLetter[Tx any](e *env[Tx]) {
	m := full("a")
	e.bury("billing", m)
	l := e.letter()
	e.wantMessage(l.Message, m)
	if l.Number <= 0 || l.Origin != deadletter.FromConsumer || l.Consumer != "billing" || l.Reason != waybill.ReasonExhausted ||
		l.Error != "card expired" || l.Attempts != 6 || l.Requeues != 0 || l.Failed || l.Requeued {
		e.Errorf("letter = %+v, want what was buried", l)
	}
	e.wantRecent("FirstFailed", l.FirstFailed, 0)
	e.wantRecent("LastFailed", l.LastFailed, 0)

	e.process("billing", m, inbox.Dead)
	e.process("shipping", m, inbox.Processed)
	e.wantNowhere("a") // it is not the outbox's
}

func buryTwice[Tx any](e *env[Tx]) {
	l := letterOf("billing", msg("a", "k"))
	e.buryAs(l, true)
	number := e.letter().Number
	e.buryAs(l, false)
	if got := e.letter().Number; got != number {
		e.Errorf("number of the letter = %d, want still %d", got, number)
	}
	e.bury("shipping", msg("a", "k"))
}

func buryProcessed[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	e.process("billing", m, inbox.Processed)
	e.buryAs(letterOf("billing", m), false)
	if letters := e.letters(deadletter.Filter{}); len(letters) != 0 {
		e.Errorf("%d letters of a processed message, want none", len(letters))
	}
	e.process("billing", m, inbox.Duplicate)
}

func buryFailed[Tx any](e *env[Tx]) {
	l := letterOf("billing", msg("a", "k"))
	l.Failed = true
	e.buryAs(l, true)
	if !e.letter().Failed {
		e.Error("the letter is not marked as failed")
	}
	e.process("billing", msg("a", "k"), inbox.Dead)
}

func buryNoKey[Tx any](e *env[Tx]) {
	m := waybill.Message{Topic: "orders", Type: "t", Payload: []byte("\xff\x00")}
	e.buryWithoutKey("billing", m)
	e.buryWithoutKey("billing", m) // nothing tells them apart, so both are kept
	letters := e.letters(deadletter.Filter{})
	if len(letters) != 2 {
		e.Fatalf("%d letters, want 2", len(letters))
	}
	if got := e.show(letters[0].Number); got.Message.ID != "" || string(got.Message.Payload) != "\xff\x00" || got.Reason != waybill.ReasonNoID {
		e.Errorf("letter = %+v with the id %q, want no id and the payload", got, got.Message.ID)
	}
	e.process("billing", msg("a", "k"), inbox.Processed)
}

func buryLarge[Tx any](e *env[Tx]) {
	m := msg("a", "k")
	m.Payload = []byte(strings.Repeat("x", 2*waybill.MaxPayloadLen))
	m.Topic = strings.Repeat("t", 2*waybill.MaxTopicLen)
	m.Headers = map[string]string{"Upper": "1", "x": "a\x00b"}
	e.bury("billing", m)
	l := e.letter()
	if len(l.Message.Payload) != len(m.Payload) || l.Message.Topic != m.Topic[:waybill.MaxTopicLen] {
		e.Errorf("letter with a payload of %d bytes and a topic of %d, want %d and %d",
			len(l.Message.Payload), len(l.Message.Topic), len(m.Payload), waybill.MaxTopicLen)
	}
}

func buryErrorText[Tx any](e *env[Tx]) {
	for i, text := range []string{"", "a\x00b", "\xff\xfe", "NULL", "'; --", `{"a",\`, strings.Repeat("ü", observe.MaxErrorLen)} {
		l := letterOf("billing", msg(string(rune('a'+i)), "k"))
		l.Error = observe.ErrorText(textError(text))
		e.buryAs(l, true)
		letters := e.letters(deadletter.Filter{})
		if got := letters[len(letters)-1].Error; got != l.Error {
			e.Errorf("error = %q, want %q", got, l.Error)
		}
	}
}

func buryAtOnce[Tx any](e *env[Tx]) {
	l := letterOf("billing", msg("a", "k"))
	e.concurrently(8, func(int) error {
		return repeatConflicts(func() error {
			_, err := e.s.BuryMessage(e.ctx, l)
			return err
		})
	})
	e.letter()
}
