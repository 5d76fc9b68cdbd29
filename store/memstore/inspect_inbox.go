package memstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/waybill-go/waybill/inbox"
)

// InboxStates implements [inbox.Inspector].
func (s *Store) InboxStates(ctx context.Context, id, consumer string) ([]inbox.State, error) {
	states := []inbox.State{}
	err := s.inTx(ctx, func(*Tx) error {
		for key, r := range s.data.inbox {
			if (r.MessageID == id || key.Message == id) && (consumer == "" || key.Consumer == consumer) {
				states = append(states, r.state())
			}
		}
		for key, a := range s.data.attempts {
			_, ended := s.data.inbox[key]
			if key.Message == id && (consumer == "" || key.Consumer == consumer) && !ended {
				states = append(states, a.state(key))
			}
		}
		return nil
	})
	slices.SortFunc(states, func(a, b inbox.State) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Message, b.Message))
	})
	return states, err
}

func (r record) state() inbox.State {
	st := stateOf(r.Key)
	st.MessageID, st.Type = r.MessageID, r.Type
	if at := r.processedAt; r.dead {
		st.DeadAt = &at
	} else {
		st.ProcessedAt = &at
	}
	return st
}

func (a attempt) state(key inbox.Key) inbox.State {
	st := stateOf(key)
	st.Attempts, st.DueAt, st.Error = a.count, &a.due, a.error()
	return st
}

// error returns the error of the last failed attempt.
func (a attempt) error() string {
	if n := len(a.history); n > 0 {
		return a.history[n-1].Error
	}
	return ""
}

func stateOf(key inbox.Key) inbox.State {
	return inbox.State{Tenant: key.Tenant, Consumer: key.Consumer, Source: key.Source, Alias: key.Alias, Message: key.Message}
}

// InboxSize implements [inbox.Sizer].
func (s *Store) InboxSize(ctx context.Context) (size inbox.Size, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		size.Records = int64(len(s.data.inbox))
		for _, r := range s.data.inbox {
			size.Oldest = max(size.Oldest, s.now().Sub(r.processedAt))
		}
		return nil
	})
	return size, err
}
