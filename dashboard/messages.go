package dashboard

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

// message is what the page about one message shows.
type message struct {
	ops.Life
	CanAskInbox, AskedInbox bool
}

// messages shows one message, or the list that the URL asks for.
func (d *Dashboard) messages(c *call) error {
	q := c.r.URL.Query()
	id := strings.TrimSpace(q.Get("id"))
	switch {
	case id == "" && isSearch(q):
		return d.searchMessages(c)
	case id == "":
		return c.show(http.StatusOK, "search", "Messages", search{Statuses: inspect.Statuses()})
	case len(id) > waybill.MaxIDLen:
		return &problem{http.StatusBadRequest, "Refused", fmt.Sprintf("An id has at most %d bytes.", waybill.MaxIDLen)}
	}
	m := message{CanAskInbox: c.inbox != nil, AskedInbox: c.inbox != nil && q.Has("inbox")}
	var err error
	if m.Life, err = c.ops().Life(c.r.Context(), id, m.AskedInbox); err != nil {
		return err
	}
	status := http.StatusOK
	if m.Unknown() {
		status = http.StatusNotFound
	}
	return c.show(status, "messages", "Message "+ops.Short(id, 60), &m)
}
