package dashboard

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

const (
	messagesOnPage = 100

	// anywhere stands for every status, in the URL. Dead-lettered and published messages are
	// found only by key, correlation id or text: without one, each source would show a different
	// end of a list.
	anywhere = "any"
)

// search is what the form and the list of messages show.
type search struct {
	query
	Statuses []inspect.Status
	Found    []inspect.MessageState
	More     bool // there are more
}

// searchFields are those of the URL that ask for a list.
var searchFields = []string{"status", "topic", "key", "correlation", "text"}

// isSearch reports whether a URL asks for a list of messages. The form sends every field, so that
// an empty one asks for pending messages.
func isSearch(q url.Values) bool { return slices.ContainsFunc(searchFields, q.Has) }

// readSearch reads a filter, and the statuses to go through, from a URL.
func readSearch(q url.Values) (inspect.Filter, []inspect.Status, error) {
	f := inspect.Filter{Topic: q.Get("topic"), Key: q.Get("key"), CorrelationID: q.Get("correlation"), Text: q.Get("text")}
	if q.Get("status") == anywhere {
		if f.Key == "" && f.CorrelationID == "" && f.Text == "" {
			return f, nil, invalidField("status", "is “anywhere”, which goes with a key, a correlation id or a text")
		}
		return f, ops.AnyStatus, nil
	}
	f.Status = inspect.Status(q.Get("status"))
	return f, []inspect.Status{f.Status}, f.Check()
}

// searchMessages shows the messages that match, at most a page of them.
func (d *Dashboard) searchMessages(c *call) error {
	asked := c.r.URL.Query()
	s := search{query: query{Asked: asked}, Statuses: inspect.Statuses()}
	f, statuses, err := readSearch(asked)
	if s.refuses(err) {
		return c.show(http.StatusBadRequest, "search", "Messages", s)
	}
	if s.Found, err = c.ops().Search(c.r.Context(), f, statuses, messagesOnPage); err != nil {
		if c.r.Context().Err() != nil {
			return errSlowSearch
		}
		return err
	}
	if s.More = len(s.Found) > messagesOnPage; s.More {
		s.Found = s.Found[:messagesOnPage]
	}
	return c.show(http.StatusOK, "search", "Messages", s)
}

var errSlowSearch = &problem{http.StatusServiceUnavailable, "The search took too long",
	"It may have to read every message with the status asked for. Ask for one status, or for a message by its id."}
