package consumer

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/observe"
)

// TestTakeOver says with what progress a partition is gone on with.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	const member, away = true, false
	const messages, none = true, false
	holder := inbox.Holder{Generation: 4, Member: "b"}
	stored := func(next, recordedBelow int64, generation int32) *contract.Progress {
		return &contract.Progress{Next: next, RecordedBelow: recordedBelow, Holder: inbox.Holder{Generation: generation, Member: "a"}}
	}
	for name, tc := range map[string]struct {
		was                   *contract.Progress
		committed, start, end int64
		current               bool
		between               bool // the broker has messages between what is stored and the group's offset
		next, recordedBelow   int64
		fails                 string
	}{
		"new partition":                     {nil, -1, 0, 9, member, messages, 0, 9, ""},
		"new partition, what is new only":   {nil, -1, 9, 9, member, messages, 9, 9, ""},
		"kept by Kafka alone until now":     {nil, 5, 0, 9, member, messages, 5, 9, ""},
		"the group's offset is behind":      {stored(7, 3, 3), 5, 0, 9, member, messages, 7, 3, ""},
		"the group has no offset":           {stored(7, 3, 3), -1, 9, 9, member, messages, 7, 3, ""},
		"the group's offset is the same":    {stored(7, 3, 3), 7, 0, 9, member, messages, 7, 3, ""},
		"others went on without the store":  {stored(7, 3, 3), 8, 0, 9, member, messages, 8, 9, ""},
		"transactions ended, and no more":   {stored(7, 3, 3), 8, 0, 9, member, none, 8, 3, ""},
		"all is done":                       {stored(9, 3, 3), 9, 0, 9, member, messages, 9, 3, ""},
		"taken again in one generation":     {stored(7, 3, 4), 7, 0, 9, away, messages, 7, 3, ""},
		"the topic was made again":          {stored(10, 3, 3), -1, 0, 9, member, messages, 0, 0, "made again"},
		"a later generation, not a member":  {stored(7, 3, 5), 7, 0, 9, away, messages, 0, 0, contract.ErrFenced.Error()},
		"the group was removed meanwhile":   {stored(7, 3, 5), -1, 0, 9, member, messages, 7, 3, ""},
		"removed, and others went on since": {stored(7, 3, 5), 8, 0, 9, member, messages, 8, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := contract.PartitionClaim{
				Holder: holder, Committed: tc.committed, Start: tc.start, End: tc.end,
				Current: func(context.Context) (bool, error) { return tc.current, nil },
				HasMessages: func(_ context.Context, from, to int64) (bool, error) {
					if from != tc.was.Next || to != tc.committed {
						t.Errorf("asked for messages from %d to %d", from, to)
					}
					return tc.between, nil
				},
			}
			got, err := takeOver(t.Context(), tc.was, claim)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Fatalf("takeOver() = %v, want an error about %q", err, tc.fails)
				}
				return
			}
			if want := (contract.Progress{Next: tc.next, RecordedBelow: tc.recordedBelow, Holder: holder}); got != want || err != nil {
				t.Errorf("takeOver() = %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// progressStub is a store of one partition, into which somebody else writes between reading and
// taking as often as it is configured to.
type progressStub struct {
	contract.Inbox[int]
	row     *contract.Progress
	meddles int
	err     error
}

func (s *progressStub) ReadProgress(context.Context, inbox.Partition) (contract.Progress, bool, error) {
	if s.row == nil {
		return contract.Progress{}, false, s.err
	}
	return *s.row, true, s.err
}

func (s *progressStub) TakePartition(_ context.Context, _ inbox.Partition, was *contract.Progress, now contract.Progress) (bool, error) {
	if s.meddles > 0 {
		s.meddles--
		s.row = &contract.Progress{Next: now.Next + 1}
	}
	if (was == nil) != (s.row == nil) || was != nil && *was != *s.row {
		return false, nil
	}
	s.row = &now
	return true, nil
}

// offsetStub is a subscriber that keeps what it was given.
type offsetStub struct {
	contract.Subscriber
	take func(ctx context.Context, c contract.PartitionClaim) (contract.Progress, error)
}

func (s *offsetStub) SubscribeAt(_ context.Context, _ int, take func(context.Context, contract.PartitionClaim) (contract.Progress, error), _ func(contract.PlacedDelivery)) error {
	s.take = take
	return nil
}

func ignore(context.Context, int, *waybill.Message) error { return nil }

// TestOffsets_TakenMeanwhile goes on with what others have stored between two statements.
func TestOffsets_TakenMeanwhile(t *testing.T) {
	t.Parallel()
	sub, store := &offsetStub{}, &progressStub{meddles: 3}
	notes := &noted{}
	c, err := New(gives{sub}, billing, contract.Inbox[int](store), ignore, Config{Offsets: OffsetsBesideInbox, Observer: notes})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.subscribe(t.Context(), 1, nil); err != nil {
		t.Fatal(err)
	}
	claim := contract.PartitionClaim{Holder: inbox.Holder{Generation: 1}, Committed: 2, End: 9}
	got, err := sub.take(t.Context(), claim)
	if want := (contract.Progress{Next: 5, RecordedBelow: 0, Holder: claim.Holder}); got != want || err != nil || *store.row != want {
		t.Errorf("take() = %+v, %v, stored %+v, want %+v", got, err, store.row, want)
	}
	store.err = waybill.UnavailableError(errors.New("no answer"))
	if _, err := sub.take(t.Context(), claim); !waybill.IsUnavailable(err) {
		t.Errorf("take() = %v, want unavailable", err)
	}
	if n := len(notes.events); n != 1 || notes.events[0].Op != observe.OpPause {
		t.Errorf("observed %v, want one pause", notes.events)
	}
}

// TestOffsets_Refused: offsets are kept where all can keep them, and nowhere else.
func TestOffsets_Refused(t *testing.T) {
	t.Parallel()
	type box = contract.Inbox[int]
	for name, tc := range map[string]struct {
		sub   contract.Subscriber
		box   box
		cfg   Config
		field string
	}{
		"no such mode":             {&offsetStub{}, &progressStub{}, Config{Offsets: 3}, "consumer.Config.Offsets"},
		"negative mode":            {&offsetStub{}, &progressStub{}, Config{Offsets: -1}, "consumer.Config.Offsets"},
		"broker without offsets":   {&struct{ contract.Subscriber }{}, &progressStub{}, Config{Offsets: OffsetsBesideInbox}, "consumer.Config.Offsets"},
		"inbox without them":       {&offsetStub{}, &struct{ box }{}, Config{Offsets: OffsetsBehindExactlyOnce}, "consumer.Config.Offsets"},
		"batches":                  {&offsetStub{}, &progressStub{}, Config{Offsets: OffsetsBesideInbox, BatchSize: 2}, "consumer.Config.BatchSize"},
		"conflicts not noticed":    {&offsetStub{}, &progressStub{}, Config{Offsets: OffsetsBehindExactlyOnce, OnConflict: ConflictSkip}, "consumer.Config.OnConflict"},
		"conflicts with an inbox":  {&offsetStub{}, &progressStub{}, Config{Offsets: OffsetsBesideInbox, OnConflict: ConflictSkip}, ""},
		"exactly once":             {&offsetStub{}, &progressStub{}, Config{Offsets: OffsetsBehindExactlyOnce}, ""},
		"off, with any of these":   {&struct{ contract.Subscriber }{}, &struct{ box }{}, Config{}, ""},
		"with an inbox, and order": {&offsetStub{}, &progressStub{}, Config{Offsets: OffsetsBesideInbox, Order: OrderByKey}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := New(gives{tc.sub}, billing, tc.box, ignore, tc.cfg)
			var invalid *waybill.InvalidError
			if errors.As(err, &invalid) != (tc.field != "") || invalid != nil && invalid.Field != tc.field {
				t.Errorf("New() = %v, want one about %q", err, tc.field)
			}
		})
	}
	keep := LettersTo(func(context.Context, inbox.Letter) error { return nil })
	_, err := NewLeased(gives{&offsetStub{}}, billing, &leaseStub{}, func(context.Context, *waybill.Message) error { return nil },
		Leases{Bus: "kafka", Letters: keep}, Config{Offsets: OffsetsBesideInbox})
	if err == nil || !strings.Contains(err.Error(), "consumer.Config.Offsets") {
		t.Errorf("NewLeased() = %v, want one about Offsets", err)
	}
}

// placed is a delivery at a place.
type placed struct {
	contract.Delivery
	place contract.Place
}

func (p placed) Place() contract.Place { return p.place }

// TestOffsets_Once: a record is left out only for what was published in a transaction, where that
// is said to be enough, and where no inbox was alone with it.
func TestOffsets_Once(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode          OffsetMode
		offset        int64
		transactional bool
		once          bool
	}{
		"in addition to the inbox":  {OffsetsBesideInbox, 9, true, false},
		"behind exactly once":       {OffsetsBehindExactlyOnce, 5, true, true},
		"not in a transaction":      {OffsetsBehindExactlyOnce, 9, false, false},
		"an inbox may have been it": {OffsetsBehindExactlyOnce, 4, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &receiver{cfg: Config{Offsets: tc.mode}}
			place := contract.Place{
				Partition: inbox.Partition{Group: "billing", Topic: "orders", Number: 1}, Offset: tc.offset, Transactional: tc.transactional,
				Taken: contract.Progress{RecordedBelow: 5, Holder: inbox.Holder{Generation: 2, Member: "b"}},
			}
			got := c.position(&held{Delivery: placed{place: place}})
			if want := (inbox.Position{Partition: place.Partition, Holder: place.Taken.Holder, Offset: tc.offset, Once: tc.once}); *got != want {
				t.Errorf("position() = %+v, want %+v", *got, want)
			}
		})
	}
}
