package storetest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
)

func offsetTests[Tx any]() []test[Tx] {
	offsets := []need{keepsOffsets}
	return []test[Tx]{
		{"taken, read and taken over", offsetsTaken[Tx], offsets},
		{"taken by two at once", offsetsTakenAtOnce[Tx], offsets},
		{"partitions are apart", offsetsApart[Tx], offsets},
		{"an offset that is passed is a duplicate", offsetsPassed[Tx], offsets},
		{"one copy handled of many at once", offsetsAtOnce[Tx], offsets},
		{"handler fails", offsetsFail[Tx], offsets},
		{"an older holder is fenced", offsetsFenced[Tx], offsets},
		{"a partition that nobody has taken", offsetsUntaken[Tx], offsets},
		{"taken over while the handler runs", offsetsTakenOver[Tx], []need{keepsOffsets, concurrentWriters}},
		{"no record of what stands there once", offsetsOnce[Tx], offsets},
		{"a duplicate by its record moves on, a conflict does not", offsetsBesideRecord[Tx], offsets},
		{"dead letter", offsetsBury[Tx], offsets},
		{"dead letter of a fenced holder", offsetsBuryFenced[Tx], offsets},
		{"attempts are cleared", offsetsClearAttempts[Tx], offsets},
		{"found after a restart", offsetsPersist[Tx], []need{keepsOffsets, persists}},
	}
}

var partition = inbox.Partition{Group: "billing", Topic: "orders", Number: 3}

func holder(generation int32) inbox.Holder {
	return inbox.Holder{Generation: generation, Member: "member-" + strings.Repeat("i", int(generation))}
}

func (e *env[Tx]) offsets() contract.OffsetStore {
	e.Helper()
	s, ok := e.s.(contract.OffsetStore)
	if !ok {
		e.Fatal("the store is no contract.OffsetStore")
	}
	return s
}

// takePartition makes h the holder of p, with next as the next offset, whoever held it before.
func (e *env[Tx]) takePartition(p inbox.Partition, h inbox.Holder, next int64) contract.Progress {
	e.Helper()
	was, found, err := e.offsets().ReadProgress(e.ctx, p)
	e.must(err, "ReadProgress")
	now := contract.Progress{Next: next, RecordedBelow: 7, Holder: h}
	old := &was
	if !found {
		old = nil
	}
	taken, err := e.offsets().TakePartition(e.ctx, p, old, now)
	e.must(err, "TakePartition")
	if !taken {
		e.Fatalf("TakePartition(%+v, %+v) = false, want true", old, now)
	}
	return now
}

func (e *env[Tx]) wantNext(p inbox.Partition, next int64) {
	e.Helper()
	v, found, err := e.offsets().ReadProgress(e.ctx, p)
	e.must(err, "ReadProgress")
	if !found || v.Next != next {
		e.Errorf("progress = %+v, %v, want the next offset %d", v, found, next)
	}
}

// recordAt is the record of a message with the given id at an offset of partition.
func recordAt(id string, h inbox.Holder, offset int64, once bool) inbox.Record {
	m := msg(id, "k")
	rec := inbox.RecordOf("billing", &m)
	rec.At = &inbox.Position{Partition: partition, Holder: h, Offset: offset, Once: once}
	return rec
}

// wantFenced checks that a message is fenced off and changes nothing.
func (e *env[Tx]) wantFenced(rec inbox.Record) {
	e.Helper()
	ran := false
	_, err := e.s.ProcessOnce(e.ctx, rec, func(context.Context, Tx) error {
		ran = true
		return nil
	})
	if !errors.Is(err, contract.ErrFenced) || !waybill.IsConflict(err) || ran {
		e.Errorf("ProcessOnce() = %v, handler ran = %v, want ErrFenced as a conflict, and no run", err, ran)
	}
}

func offsetsTaken[Tx any](e *env[Tx]) {
	if v, found, err := e.offsets().ReadProgress(e.ctx, partition); found || err != nil || v != (contract.Progress{}) {
		e.Errorf("ReadProgress() = %+v, %v, %v, want nothing", v, found, err)
	}
	first := e.takePartition(partition, holder(1), 1<<40)
	if taken, err := e.offsets().TakePartition(e.ctx, partition, nil, contract.Progress{Holder: holder(2)}); taken || err != nil {
		e.Errorf("TakePartition() = %v, %v as if nothing were stored, want false", taken, err)
	}
	stale := first
	stale.Next++
	if taken, err := e.offsets().TakePartition(e.ctx, partition, &stale, contract.Progress{Holder: holder(2)}); taken || err != nil {
		e.Errorf("TakePartition() = %v, %v with another offset than is stored, want false", taken, err)
	}
	stale = first
	stale.Member = "nobody"
	if taken, err := e.offsets().TakePartition(e.ctx, partition, &stale, contract.Progress{Holder: holder(2)}); taken || err != nil {
		e.Errorf("TakePartition() = %v, %v with another member than is stored, want false", taken, err)
	}
	second := contract.Progress{Next: 5, RecordedBelow: 9, Holder: holder(2)}
	if taken, err := e.offsets().TakePartition(e.ctx, partition, &first, second); !taken || err != nil {
		e.Errorf("TakePartition() = %v, %v, want true", taken, err)
	}
	if v, _, err := e.offsets().ReadProgress(e.ctx, partition); v != second || err != nil {
		e.Errorf("ReadProgress() = %+v, %v, want %+v", v, err, second)
	}
}

func offsetsTakenAtOnce[Tx any](e *env[Tx]) {
	for _, was := range []*contract.Progress{nil, {Holder: holder(1)}} {
		if was != nil {
			_, err := e.offsets().TakePartition(e.ctx, inbox.Partition{Group: "again"}, nil, *was)
			e.must(err, "TakePartition")
		}
		p := inbox.Partition{Group: "new"}
		if was != nil {
			p.Group = "again"
		}
		var won atomic.Int32
		var all sync.WaitGroup
		for i := range int32(8) {
			all.Go(func() {
				taken := false
				err := repeatConflicts(func() (err error) {
					taken, err = e.offsets().TakePartition(e.ctx, p, was, contract.Progress{Holder: holder(i + 2)})
					return err
				})
				if err != nil {
					e.Errorf("TakePartition() = %v", err)
				}
				if taken {
					won.Add(1)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			e.Errorf("%d of 8 have taken the partition from %+v, want 1", won.Load(), was)
		}
	}
}

func offsetsApart[Tx any](e *env[Tx]) {
	list := []inbox.Partition{
		partition, {Group: "billin", Topic: "gorders", Number: 3}, {Group: "billing", Topic: "orders", Number: 4},
		{Group: "Billing", Topic: "orders", Number: 3}, {Group: strings.Repeat("g", waybill.MaxConsumerLen), Topic: strings.Repeat("t", 249)},
	}
	for i, p := range list {
		e.takePartition(p, holder(1), int64(i))
	}
	e.processRecord(recordAt("a", holder(1), 0, false), inbox.Processed)
	e.wantNext(partition, 1)
	for i, p := range list[1:] {
		e.wantNext(p, int64(i+1))
	}
}

func offsetsPassed[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	e.processRecord(recordAt("a", holder(1), 0, true), inbox.Processed)
	e.wantNext(partition, 1)
	e.processRecord(recordAt("b", holder(1), 5, true), inbox.Processed) // the offsets between were removed by the broker
	e.wantNext(partition, 6)
	for offset := range int64(6) {
		e.processRecord(recordAt("b", holder(1), offset, true), inbox.Duplicate)
		e.processRecord(recordAt("c", holder(9), offset, false), inbox.Duplicate) // also of a holder that has lost it
	}
	e.wantEffects("a", 1)
	e.wantEffects("b", 1)
	e.wantEffects("c", 0)
}

func offsetsAtOnce[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	var processed atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			var outcome inbox.Outcome
			err := repeatConflicts(func() (err error) {
				outcome, err = e.s.ProcessOnce(e.ctx, recordAt("a", holder(1), 0, true), func(ctx context.Context, tx Tx) error {
					return e.h.Effect(ctx, e.s, tx, "a")
				})
				return err
			})
			if err != nil {
				e.Errorf("ProcessOnce() = %v", err)
			}
			if outcome == inbox.Processed {
				processed.Add(1)
			}
		})
	}
	all.Wait()
	if processed.Load() != 1 {
		e.Errorf("%d of 20 copies were handled, want 1", processed.Load())
	}
	e.wantEffects("a", 1)
}

func offsetsFail[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	failure := errors.New("card expired")
	_, err := e.s.ProcessOnce(e.ctx, recordAt("a", holder(1), 0, true), func(ctx context.Context, tx Tx) error {
		return errors.Join(e.h.Effect(ctx, e.s, tx, "a"), failure)
	})
	if !errors.Is(err, failure) {
		e.Errorf("ProcessOnce() = %v, want the handler's error", err)
	}
	e.wantNext(partition, 0)
	e.wantEffects("a", 0)
	e.processRecord(recordAt("a", holder(1), 0, true), inbox.Processed)
}

func offsetsFenced[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	e.takePartition(partition, holder(2), 0)
	e.wantFenced(recordAt("a", holder(1), 0, true))
	e.wantFenced(recordAt("a", holder(1), 0, false))
	e.wantFenced(recordAt("a", inbox.Holder{Generation: 2, Member: holder(1).Member}, 0, false))
	e.wantFenced(recordAt("a", inbox.Holder{Generation: 1, Member: holder(2).Member}, 0, false))
	e.wantNext(partition, 0)
	e.processRecord(recordAt("a", holder(2), 0, false), inbox.Processed)
}

func offsetsUntaken[Tx any](e *env[Tx]) {
	e.wantFenced(recordAt("a", holder(1), 0, true))
}

// offsetsTakenOver takes a partition over while its holder's handler runs: the takeover waits, and
// finds that the offset has moved.
func offsetsTakenOver[Tx any](e *env[Tx]) {
	was := e.takePartition(partition, holder(1), 0)
	running, finish := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		_, err := e.s.ProcessOnce(e.ctx, recordAt("a", holder(1), 0, true), func(ctx context.Context, tx Tx) error {
			close(running)
			<-finish
			return e.h.Effect(ctx, e.s, tx, "a")
		})
		if err != nil {
			e.Errorf("ProcessOnce() = %v", err)
		}
	})
	<-running
	all.Go(func() {
		taken, err := e.offsets().TakePartition(e.ctx, partition, &was, contract.Progress{Holder: holder(2)})
		if taken || err != nil && !waybill.IsConflict(err) {
			e.Errorf("TakePartition() = %v, %v while the handler ran, want false", taken, err)
		}
	})
	close(finish)
	all.Wait()
	e.wantNext(partition, 1)
	e.wantEffects("a", 1)
}

func offsetsOnce[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	e.processRecord(recordAt("a", holder(1), 0, true), inbox.Processed)
	e.processRecord(recordAt("a", holder(1), 1, false), inbox.Processed) // there was no record
	e.processRecord(recordAt("a", holder(1), 2, false), inbox.Duplicate)
	e.wantEffects("a", 2)
}

func offsetsBesideRecord[Tx any](e *env[Tx]) {
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.process("billing", msg("a", "k"), inbox.Duplicate) // a store may look for the next one's record first
	e.takePartition(partition, holder(1), 0)
	e.processRecord(recordAt("a", holder(1), 0, false), inbox.Duplicate)
	e.wantNext(partition, 1)
	e.wantEffects("a", 1)
	rec := recordAt("a", holder(1), 1, false)
	rec.PayloadHash = strings.Repeat("0", 64)
	e.processRecord(rec, inbox.Conflict)
	e.wantNext(partition, 1)
	l := letterAt("a", rec.At)
	l.Record.Message = "" // as of one in conflict
	e.buryAs(l, true)
	e.wantNext(partition, 2)
}

func letterAt(id string, at *inbox.Position) inbox.Letter {
	l := letterOf("billing", msg(id, "k"))
	l.Record.At = at
	return l
}

func offsetsBury[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	at := recordAt("a", holder(1), 0, true).At
	e.buryAs(letterAt("a", at), true)
	e.wantNext(partition, 1)
	e.buryAs(letterAt("a", at), false)
	e.buryAs(letterAt("b", at), false) // its offset is passed
	e.processRecord(recordAt("a", holder(1), 0, true), inbox.Duplicate)
	if l := e.letter(); l.Message.ID != "a" {
		e.Errorf("letter of %s, want that of a", l.Message.ID)
	}
}

func offsetsBuryFenced[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(2), 0)
	buried, err := e.s.BuryMessage(e.ctx, letterAt("a", recordAt("a", holder(1), 0, true).At))
	if buried || !errors.Is(err, contract.ErrFenced) || !waybill.IsConflict(err) {
		e.Errorf("BuryMessage() = %v, %v, want ErrFenced as a conflict", buried, err)
	}
	e.process("billing", msg("a", "k"), inbox.Processed)
	e.wantNext(partition, 0)
}

func offsetsClearAttempts[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	for _, want := range []inbox.Outcome{inbox.Processed, inbox.Duplicate} {
		e.saveStarts(keyOf("billing", "a"), 1)
		rec := recordAt("a", holder(1), 0, true)
		rec.Retried = true
		e.processRecord(rec, want)
		e.wantStarts(rec.Key, 0)
	}
}

func offsetsPersist[Tx any](e *env[Tx]) {
	e.takePartition(partition, holder(1), 0)
	e.processRecord(recordAt("a", holder(1), 0, true), inbox.Processed)
	e.reopen()
	want := contract.Progress{Next: 1, RecordedBelow: 7, Holder: holder(1)}
	if v, found, err := e.offsets().ReadProgress(e.ctx, partition); v != want || !found || err != nil {
		e.Errorf("ReadProgress() = %+v, %v, %v after a restart, want %+v", v, found, err, want)
	}
}
