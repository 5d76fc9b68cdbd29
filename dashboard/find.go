package dashboard

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

const foundOnPage = 20 // of messages, and of dead letters

// foundAnywhere is what the search of every page shows.
type foundAnywhere struct {
	Text    string
	Found   []inspect.MessageState
	Letters []deadletter.Letter
	More    bool // there is more of either
}

// find shows what a text names: the message with this id, or else every message and dead letter that has it as
// its tenant or in one of the texts that are searched.
func (d *Dashboard) find(c *call) error {
	f := foundAnywhere{Text: strings.TrimSpace(c.r.URL.Query().Get("q"))}
	if f.Text == "" {
		return c.redirect("messages")
	}
	found, err := c.ops().Lookup(c.r.Context(), f.Text, foundOnPage)
	switch {
	case err != nil && c.r.Context().Err() != nil:
		return errSlowSearch
	case err != nil:
		return err
	case found.ID != "":
		return c.redirect("messages?id=" + url.QueryEscape(found.ID))
	case len(found.States) == 0 && len(found.Letters) == 1:
		return c.redirect("dead/" + strconv.FormatInt(found.Letters[0].Number, 10))
	}
	f.Found, f.Letters = found.States[:min(len(found.States), foundOnPage)], found.Letters[:min(len(found.Letters), foundOnPage)]
	f.More = len(f.Found) < len(found.States) || len(f.Letters) < len(found.Letters)
	return c.show(http.StatusOK, "find", "Search for "+ops.Short(f.Text, 60), f)
}
