package dashboard

import (
	"html/template"
	"net/http"
	"net/url"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/schedule"
)

const schedulesOnPage = 50

// schedulesPage is what the page of schedules shows.
type schedulesPage struct {
	Stats     schedule.Stats
	Recurring []ops.ScheduleRow
	Messages  []schedule.ScheduledMessage
	More      template.URL // query of the next schedules, empty for none
	MoreWait  template.URL // query of the next messages, empty for none
}

func (d *Dashboard) schedules(c *call) (err error) {
	q, ctx := c.r.URL.Query(), c.r.Context()
	page := schedulesPage{}
	if c.who.Tenant == "" {
		if page.Stats, err = c.schedules.ScheduleStats(ctx); err != nil {
			return err
		}
	}
	list, err := ops.Schedules(ctx, c.schedules, q.Get("after"), schedulesOnPage+1) // one more tells whether there is another page
	if err != nil {
		return err
	}
	var last *ops.ScheduleRow
	if page.Recurring, last = pageOf(list, schedulesOnPage); last != nil {
		page.More = template.URL(url.Values{"after": {last.Name}}.Encode())
	}
	after, err := ops.ParsePlace(q.Get("place"))
	if err != nil {
		return err
	}
	waiting, err := c.schedules.ScheduledMessages(ctx, after, schedulesOnPage+1)
	if err != nil {
		return err
	}
	var next *schedule.ScheduledMessage
	if page.Messages, next = pageOf(waiting, schedulesOnPage); next != nil {
		page.MoreWait = template.URL(url.Values{"place": {ops.Place(next)}}.Encode())
	}
	return c.show(http.StatusOK, "schedules", "Schedules", page)
}

func (d *Dashboard) schedule(c *call) error { return c.showSchedule(c.r.URL.Query(), false) }

// revealSchedule shows the payload, after recording who views it.
func (d *Dashboard) revealSchedule(c *call) error { return c.showSchedule(c.r.PostForm, true) }

// showSchedule shows the schedule with a name, or the message with an id.
func (c *call) showSchedule(q url.Values, looks bool) error {
	noun, title, t := ops.Schedule, "Schedule ", ops.Target{Name: q.Get("name")}
	if t.Name == "" {
		noun, title, t.Name = ops.Scheduled, "Message ", q.Get("id")
	}
	page, err := c.screen(noun, t, looks, "name", "status", "headers", "payload")
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "schedule", title+t.Name, page)
}
