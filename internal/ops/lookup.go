package ops

import (
	"context"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// Match is what a text names.
type Match struct {
	ID      string                 // of the message with this id, "" if there is none: then the others count
	States  []inspect.MessageState // of messages
	Letters []deadletter.Letter    // in any state
}

// AnyStatus are the statuses to search for messages wherever they are; "" stands for those that are not yet published.
var AnyStatus = []inspect.Status{"", inspect.Dead, inspect.Failed, inspect.Discarded, inspect.Published}

var anyState = []deadletter.State{deadletter.Open, deadletter.Resolved, deadletter.Discarded}

// Lookup returns what a text names: the message with this id; else the messages and dead letters whose id, key,
// correlation id or error contains it; else the messages of this tenant. Of each it returns most, plus one if there are
// more. It may read every message.
func (s Stores) Lookup(ctx context.Context, text string, most int) (m Match, err error) {
	if len(text) <= waybill.MaxIDLen {
		life, err := s.Life(ctx, text, false)
		if err != nil {
			return m, err
		}
		if !life.Unknown() {
			return Match{ID: text}, nil
		}
	}
	if m.States, err = s.Search(ctx, inspect.Filter{Text: text}, AnyStatus, most); err != nil {
		return m, err
	}
	if m.Letters, err = s.lettersWith(ctx, text, most); err != nil || len(m.States)+len(m.Letters) > 0 {
		return m, err
	}
	m.States, err = s.Search(ctx, inspect.Filter{Tenant: text}, AnyStatus, most)
	return m, err
}

func (s Stores) lettersWith(ctx context.Context, text string, most int) (found []deadletter.Letter, err error) {
	for _, state := range anyState {
		left := most + 1 - len(found)
		if left == 0 {
			break
		}
		list, err := s.Letters.DeadLetters(ctx, deadletter.Filter{State: state, Text: text, Newest: true, Limit: left})
		if err != nil {
			return nil, err
		}
		found = append(found, list...)
	}
	return found, nil
}
