package dashboard

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

const (
	defaultRate  = 50
	defaultRatio = 0.5
	maxRate      = 10_000
)

func (d *Dashboard) replays(c *call) error {
	list, err := d.all.replays.Replays(c.r.Context(), replaysShown)
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "replays", "Replays", list)
}

// previewPage shows what a replay would do, before it is started.
type previewPage struct {
	Conditions []condition
	Query      template.URL
	Preview    deadletter.Preview
	Text, Risk string
	Rate       float64
	Ratio      int // per cent
}

func (d *Dashboard) previewReplay(c *call) error {
	f, err := replayFilter(c.r.URL.Query())
	if err != nil {
		return err
	}
	preview, err := d.all.replays.PreviewReplay(c.r.Context(), f, d.cfg.InboxRetention)
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "preview", "Preview of a replay", previewPage{
		Conditions: conditions(f), Query: queryOf(f), Preview: preview,
		Text: ops.PreviewText(&preview, defaultRate), Risk: ops.PreviewRisk(&preview, d.cfg.InboxRetention),
		Rate: defaultRate, Ratio: defaultRatio * 100,
	})
}

// replayFilter reads a filter for a replay, which selects open dead letters and has no
// pages.
func replayFilter(q url.Values) (deadletter.Filter, error) {
	f, err := readFilter(q)
	if err != nil {
		return f, err
	}
	if f.State != "" && f.State != deadletter.Open {
		return f, invalidField("state", "is not open; what was resolved or discarded can't be replayed")
	}
	f.State, f.After, f.Newest = "", 0, false
	return f, nil
}

func (d *Dashboard) startReplay(c *call) error {
	plan, err := c.plan()
	if err != nil {
		return err
	}
	number, err := d.all.replays.StartReplay(c.r.Context(), plan, c.act())
	if err != nil {
		return err
	}
	return c.redirect("replays/" + strconv.FormatInt(number, 10) + "?done=started")
}

// plan reads the plan of the form.
func (c *call) plan() (plan deadletter.Plan, err error) {
	if err := c.act().Check(); err != nil {
		return plan, err
	}
	q, err := url.ParseQuery(c.r.PostFormValue("filter"))
	if err != nil {
		return plan, invalidField("filter", "is malformed")
	}
	if plan.Filter, err = replayFilter(q); err != nil {
		return plan, err
	}
	plan.Rate, err = strconv.ParseFloat(c.r.PostFormValue("rate"), 64)
	if err != nil || !(plan.Rate >= 1 && plan.Rate <= maxRate) {
		return plan, invalidField("rate", "is not a number from 1 to 10000")
	}
	ratio, err := strconv.Atoi(c.r.PostFormValue("ratio"))
	if err != nil || ratio < 1 || ratio > 100 {
		return plan, invalidField("ratio", "is not a number from 1 to 100")
	}
	plan.MaxFailureRatio = float64(ratio) / 100
	return plan, nil
}

// replayPage shows the progress of a replay.
type replayPage struct {
	Replay     deadletter.Replay
	Conditions []condition
	Done       int    // requeued or skipped
	Ratio      int    // per cent at which it stops
	Idle       string // why it does not get on, "" if it does
	Offers     []offer
}

func (d *Dashboard) replay(c *call) error {
	number, err := c.number()
	if err != nil {
		return err
	}
	r, err := d.all.replays.Replay(c.r.Context(), number)
	if err != nil {
		return err
	}
	var verbs []ops.Verb
	if r.State == deadletter.Running {
		verbs = append(verbs, ops.Find(ops.Replay, "cancel"))
	}
	return c.show(http.StatusOK, "replay", "Replay "+strconv.FormatInt(number, 10), replayPage{
		Replay: r, Conditions: conditions(r.Plan.Filter), Done: r.Requeued + r.Skipped, Ratio: int(r.Plan.MaxFailureRatio * 100),
		Idle: d.idle(r, d.noRelay(c)), Offers: c.offers(verbs, fmt.Sprintf("replays/%d/", number), nil),
	})
}

// noRelay reports whether it is known that no relay is alive.
func (d *Dashboard) noRelay(c *call) bool {
	if d.all.relays == nil {
		return false
	}
	states, err := d.all.relays.RelayStates(c.r.Context())
	return c.partial(err) == nil && !ops.AnyAlive(states)
}
