package cli

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/ops"
)

// messageSearch finds messages by something other than their id.
type messageSearch struct{ key, correlation, text string }

// mostSearched is how many messages a search may find.
const mostSearched = 20

func (s *messageSearch) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&s.key, "key", "", "messages with this key")
	flags.StringVar(&s.correlation, "correlation-id", "", "messages of this flow")
	flags.StringVar(&s.text, "text", "", "messages with this text in id, key or correlation id")
}

func (s messageSearch) given() bool { return s != messageSearch{} }

// typed returns the flags that find the same, or those that find the id if none was given.
func (s messageSearch) typed(id string) string {
	if !s.given() {
		return "--id " + quoted(id)
	}
	words := ""
	for _, f := range [][2]string{{"key", s.key}, {"correlation-id", s.correlation}, {"text", s.text}} {
		if f[1] != "" {
			words += " --" + f[0] + " " + quoted(f[1])
		}
	}
	return words[1:]
}

// ids returns the ids of the messages that the outbox or a dead letter knows. More than mostSearched are an error.
func (s messageSearch) ids(ctx context.Context, store opener.Store) ([]string, error) {
	ids, err := storesOf(store).IDs(ctx, ops.FoundBy{Key: s.key, CorrelationID: s.correlation, Text: s.text}, mostSearched)
	if err != nil {
		return nil, flagError(err)
	}
	if len(ids) > mostSearched {
		return nil, fmt.Errorf("more than %d messages match; narrow the search, or find them with: waybill outbox list", mostSearched)
	}
	return ids, nil
}

func quotedAll(texts []string) []string {
	list := make([]string, len(texts))
	for i, text := range texts {
		list[i] = fmt.Sprintf("%q", text)
	}
	return list
}
