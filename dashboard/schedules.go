package dashboard

import (
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/schedule"
)

const schedulesOnPage = 50

// schedulesPage is what the page of schedules shows.
type schedulesPage struct {
	Stats     schedule.Stats
	Recurring []scheduleView
	Messages  []schedule.ScheduledMessage
	More      template.URL // query of the next schedules, empty for none
	MoreWait  template.URL // query of the next messages, empty for none
}

// scheduleView is a schedule as it is shown.
type scheduleView struct {
	schedule.State
	Late time.Duration // for how long its time has come
}

func newScheduleView(s schedule.State, now time.Time) scheduleView {
	v := scheduleView{State: s}
	if !s.NextAt.IsZero() {
		v.Late = max(0, now.Sub(s.NextAt))
	}
	return v
}

// Status hides a method that only a pointer has.
func (v scheduleView) Status() schedule.Status { return v.State.Status() }

// When says when the schedule is planned.
func (v scheduleView) When() string {
	if v.Every > 0 {
		return "every " + span(v.Every)
	}
	return v.Cron + " " + v.TimeZone
}

func (d *Dashboard) schedules(c *call) (err error) {
	q, ctx := c.r.URL.Query(), c.r.Context()
	page := schedulesPage{}
	if c.who.Tenant == "" {
		if page.Stats, err = c.schedules.ScheduleStats(ctx); err != nil {
			return err
		}
	}
	now, err := c.schedules.ScheduleTime(ctx)
	if err != nil {
		return err
	}
	list, err := c.schedules.Schedules(ctx, q.Get("after"), schedulesOnPage+1) // one more tells whether there is another page
	if err != nil {
		return err
	}
	for _, s := range list[:min(len(list), schedulesOnPage)] {
		page.Recurring = append(page.Recurring, newScheduleView(s, now))
	}
	if len(list) > schedulesOnPage {
		page.More = template.URL(url.Values{"after": {list[schedulesOnPage-1].Name}}.Encode())
	}
	if err := d.addScheduledMessages(c, &page); err != nil {
		return err
	}
	return c.show(http.StatusOK, "schedules", "Schedules", page)
}

func (d *Dashboard) addScheduledMessages(c *call, page *schedulesPage) error {
	after, err := placeOf(c.r.URL.Query())
	if err != nil {
		return err
	}
	list, err := c.schedules.ScheduledMessages(c.r.Context(), after, schedulesOnPage+1)
	if err != nil {
		return err
	}
	page.Messages = list[:min(len(list), schedulesOnPage)]
	if len(list) > schedulesOnPage {
		last := list[schedulesOnPage-1]
		page.MoreWait = template.URL(url.Values{
			"due": {last.DueAt.UTC().Format(time.RFC3339Nano)}, "position": {strconv.FormatInt(last.Position, 10)},
		}.Encode())
	}
	return nil
}

// placeOf reads where the page of messages before ended.
func placeOf(q url.Values) (*schedule.ScheduledMessage, error) {
	if q.Get("due") == "" {
		return nil, nil
	}
	due, err := time.Parse(time.RFC3339Nano, q.Get("due"))
	if err != nil {
		return nil, invalidField("due", "is not a time")
	}
	position, err := strconv.ParseInt(q.Get("position"), 10, 64)
	if err != nil {
		return nil, invalidField("position", "is not a number")
	}
	return &schedule.ScheduledMessage{DueAt: due, Position: position}, nil
}

// schedulePage is what the page of one schedule shows, or of one message that waits.
type schedulePage struct {
	Schedule *scheduleView // nil for a single message
	Message  *waybill.Message
	Headers  []string     // their names
	Payload  *payloadView // nil until somebody asks for it
	Entries  []deadletter.Entry
}

// Values are the headers, once the payload is shown.
func (p schedulePage) Values() map[string]string { return p.Message.Headers }

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
		v := newScheduleView(s, now)
		page.Schedule, page.Message = &v, &v.Message
	} else {
		id := q.Get("id")
		m, err := c.schedules.Scheduled(c.r.Context(), id)
		if err != nil {
			return page, err
		}
		page.Message = &m
		if page.Entries, err = c.letters.AuditLog(c.r.Context(), deadletter.AuditFilter{MessageID: id, Limit: entriesOnPage}); err != nil {
			return page, err
		}
	}
	page.Headers = slices.Sorted(maps.Keys(page.Message.Headers))
	return page, nil
}

// revealSchedule shows the payload, after it was written down who looks at it.
func (d *Dashboard) revealSchedule(c *call) error {
	page, err := d.readSchedule(c, c.r.PostForm)
	if err != nil {
		return err
	}
	e := deadletter.Entry{MessageID: page.Message.ID}
	if page.Schedule != nil {
		e.Detail = page.Schedule.Name
	}
	if err := c.recordReveal(e); err != nil {
		return err
	}
	payload := viewPayload(page.Message.Payload)
	page.Payload = &payload
	return c.showSchedule(page)
}

// changeSchedule returns what does something to the schedule that the form names. to is where it
// leads, done what the page says then, and nothing if nothing was to be done.
func changeSchedule(do func(o *schedule.Operator, ctx context.Context, name string, act deadletter.Act) (bool, error), to, done, nothing string) func(*call) error {
	return func(c *call) error {
		name := c.r.PostFormValue("name")
		operator, err := c.scheduleOperator()
		if err != nil {
			return err
		}
		changed, err := do(operator, c.r.Context(), name, c.act())
		if err != nil {
			return err
		}
		q := url.Values{"done": {done}}
		if !changed {
			q.Set("done", nothing)
		}
		if to == "schedules/one" {
			q.Set("name", name)
		}
		return c.redirect(to + "?" + q.Encode())
	}
}

// scheduleOperator changes what the request may.
func (c *call) scheduleOperator() (*schedule.Operator, error) {
	return schedule.NewOperator(c.schedules, schedule.OperatorConfig{Observer: c.d.observer})
}

// runSchedule leads to the message of the run.
func (d *Dashboard) runSchedule(c *call) error {
	operator, err := c.scheduleOperator()
	if err != nil {
		return err
	}
	id, err := operator.RunNow(c.r.Context(), c.r.PostFormValue("name"), c.act())
	if err != nil {
		return err
	}
	return c.redirect("messages?" + url.Values{"id": {id}, "done": {"run"}}.Encode())
}

func (d *Dashboard) cancelScheduled(c *call) error {
	operator, err := c.scheduleOperator()
	if err != nil {
		return err
	}
	id := c.r.PostFormValue("id")
	cancelled, err := operator.Cancel(c.r.Context(), id, c.act())
	if err != nil {
		return err
	}
	if !cancelled {
		return c.redirect("messages?" + url.Values{"id": {id}, "done": {"not-scheduled"}}.Encode())
	}
	return c.redirect("schedules?done=unscheduled")
}

// scheduleRoutes are there for a store that keeps schedules.
func (d *Dashboard) scheduleRoutes() []route {
	if d.all.schedules == nil {
		return nil
	}
	return []route{
		{pattern: "GET /schedules", role: Reader, of: ofOneTenant, do: d.schedules},
		{pattern: "GET /schedules/one", role: Reader, of: ofOneTenant, do: d.schedule},
		{pattern: "POST /schedules/reveal", role: Reader, reveal: true, of: ofOneTenant, do: d.revealSchedule},
		{pattern: "POST /schedules/pause", role: Operator, of: ofOneTenant, do: changeSchedule((*schedule.Operator).Pause, "schedules/one", "paused", "not-active")},
		{pattern: "POST /schedules/resume", role: Operator, of: ofOneTenant, do: changeSchedule((*schedule.Operator).Resume, "schedules/one", "resumed", "not-paused")},
		{pattern: "POST /schedules/run", role: Operator, of: ofOneTenant, do: d.runSchedule},
		{pattern: "POST /schedules/remove", role: Admin, of: ofOneTenant, do: changeSchedule((*schedule.Operator).Remove, "schedules", "removed", "not-there")},
		{pattern: "POST /schedules/cancel", role: Admin, of: ofOneTenant, do: d.cancelScheduled},
	}
}
