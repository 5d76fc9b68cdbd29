package dashboard

import (
	"html/template"
	"net/http"
	"net/url"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
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
	page.Recurring = list[:min(len(list), schedulesOnPage)]
	if len(list) > schedulesOnPage {
		page.More = template.URL(url.Values{"after": {list[schedulesOnPage-1].Name}}.Encode())
	}
	if err := d.addScheduledMessages(c, &page); err != nil {
		return err
	}
	return c.show(http.StatusOK, "schedules", "Schedules", page)
}

func (d *Dashboard) addScheduledMessages(c *call, page *schedulesPage) error {
	after, err := ops.ParsePlace(c.r.URL.Query().Get("place"))
	if err != nil {
		return err
	}
	list, err := c.schedules.ScheduledMessages(c.r.Context(), after, schedulesOnPage+1)
	if err != nil {
		return err
	}
	page.Messages = list[:min(len(list), schedulesOnPage)]
	if len(list) > schedulesOnPage {
		page.MoreWait = template.URL(url.Values{"place": {ops.Place(&list[schedulesOnPage-1])}}.Encode())
	}
	return nil
}

// schedulePage is what the page of one schedule shows, or of one message that waits.
type schedulePage struct {
	Schedule *ops.ScheduleRow // nil for a single message
	Message  *waybill.Message
	Facts    []fact
	Offers   []offer
	confidential
	Entries []deadletter.Entry
}

func (d *Dashboard) schedule(c *call) error {
	page, err := d.readSchedule(c, c.r.URL.Query())
	if err != nil {
		return err
	}
	return c.showSchedule(page)
}

func (c *call) showSchedule(p schedulePage) error {
	title := "Message " + p.Message.ID
	if p.Schedule != nil {
		title = "Schedule " + p.Schedule.Name
	}
	return c.show(http.StatusOK, "schedule", title, p)
}

// readSchedule reads the schedule with a name, or the message with an id.
func (d *Dashboard) readSchedule(c *call, q url.Values) (page schedulePage, err error) {
	if name := q.Get("name"); name != "" {
		s, err := c.schedules.Schedule(c.r.Context(), name)
		if err != nil {
			return page, err
		}
		now, err := c.schedules.ScheduleTime(c.r.Context())
		if err != nil {
			return page, err
		}
		row := ops.ScheduleRowOf(s, now)
		page.Schedule, page.Message, page.Names = &row, &row.State.Message, url.Values{"name": {name}}
		page.Facts = append(linked(ops.ScheduleFacts(row.State, now), "name", "status"), linked(ops.MessageFacts(page.Message), "headers", "payload")...)
		page.Offers = c.offers(ops.ScheduleVerbs(row.State), forms[ops.Schedule], page.Names)
	} else {
		id := q.Get("id")
		m, err := c.schedules.Scheduled(c.r.Context(), id)
		if err != nil {
			return page, err
		}
		page.Message, page.Names = &m, url.Values{"id": {id}}
		page.Facts = linked(ops.ScheduledFacts(&m), "headers", "payload")
		page.Offers = c.offers([]ops.Verb{ops.Find(ops.Scheduled, "cancel")}, forms[ops.Scheduled], page.Names)
		if page.Entries, err = c.letters.AuditLog(c.r.Context(), deadletter.AuditFilter{MessageID: id, Limit: entriesOnPage}); err != nil {
			return page, err
		}
	}
	page.Form, page.Headers = "schedules/reveal", ops.HeaderNames(page.Message)
	return page, nil
}

// revealSchedule shows the payload, after it was recorded who looks at it.
func (d *Dashboard) revealSchedule(c *call) error {
	page, err := d.readSchedule(c, c.r.PostForm)
	if err != nil {
		return err
	}
	e := deadletter.Entry{MessageID: page.Message.ID}
	if page.Schedule != nil {
		e.Detail = page.Schedule.Name
	}
	if err := c.reveal(&page.confidential, e, page.Message.Payload, page.Message.Headers); err != nil {
		return err
	}
	return c.showSchedule(page)
}
