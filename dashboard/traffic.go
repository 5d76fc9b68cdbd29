package dashboard

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/traffic"
)

// span is a time that the page of traffic can show.
type span struct {
	Name  string // in URLs
	Title string
	long  time.Duration
}

// spans are all of them; the first is the default.
var spans = []span{{"hour", "Last hour", time.Hour}, {"day", "Last day", 24 * time.Hour}, {"week", "Last week", 7 * 24 * time.Hour}}

// newTraffic returns the history of each span, which is read while somebody looks.
func newTraffic(store traffic.Store) map[string]*cached[traffic.History] {
	all := make(map[string]*cached[traffic.History])
	for _, s := range spans {
		all[s.Name] = newCached(func(ctx context.Context) (traffic.History, error) {
			return traffic.Load(ctx, store, s.long, time.Now())
		})
	}
	return all
}

// trafficPage is the page of traffic.
type trafficPage struct {
	query
	Spans    []span
	Span     string
	Names    traffic.Names
	Selected traffic.Selection
	About    string // what is selected, "" for all topics
	Charts   []drawing
	Rows     []ops.TrafficRow // of busy intervals, the latest first

	Topics, Consumers, Relays []ops.NamedTraffic
}

func (d *Dashboard) trafficPage(c *call) error {
	asked := c.r.URL.Query()
	p := trafficPage{query: query{Asked: asked}, Spans: spans, Span: spans[0].Name, Selected: selectionOf(asked)}
	if d.traffic[asked.Get("span")] != nil {
		p.Span = asked.Get("span")
	}
	h, _, err := d.traffic[p.Span].get(c.r.Context())
	if err != nil {
		return err
	}
	p.Names = h.Names()
	p.About = aboutOf(p.Selected)
	p.Charts = chartsOf(&h, p.Selected)
	p.Rows = latestFirst(ops.Busy(ops.TrafficRows(&h, p.Selected)))
	p.Topics = ops.TrafficOf(&h, p.Names.Topics, func(name string) traffic.Selection { return traffic.Selection{Topic: name} })
	p.Consumers = ops.TrafficOf(&h, p.Names.Consumers, ofConsumer)
	p.Relays = ops.TrafficOf(&h, p.Names.Relays, func(name string) traffic.Selection { return traffic.Selection{Relay: name} })
	return c.show(http.StatusOK, "traffic", "Traffic", p)
}

func latestFirst(rows []ops.TrafficRow) []ops.TrafficRow {
	slices.Reverse(rows)
	return rows
}

// selectionOf reads whose traffic is asked for; of several the first counts.
func selectionOf(q url.Values) traffic.Selection {
	switch {
	case q.Get("topic") != "":
		return traffic.Selection{Topic: q.Get("topic")}
	case q.Get("consumer") != "":
		return traffic.Selection{Consumer: q.Get("consumer")}
	}
	return traffic.Selection{Relay: q.Get("relay")}
}

// aboutOf puts a selection into words.
func aboutOf(s traffic.Selection) string {
	switch {
	case s.Topic != "":
		return "topic " + s.Topic
	case s.Consumer != "":
		return "consumer " + s.Consumer
	case s.Relay != "":
		return "relay " + s.Relay
	}
	return ""
}

// figure is one line of a chart.
type figure struct {
	name string
	of   func(r *ops.TrafficRow) float64
}

// The lines, by whether a consumer or a relay has them, too.
var (
	enqueued  = figure{"enqueued", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Enqueued) }}
	published = figure{"published", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Published) }}
	handled   = figure{"handled", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Handled) }}
	failed    = figure{"failed", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Failed) }}
	retried   = figure{"retried", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Retried) }}
	dead      = figure{"dead-lettered", func(r *ops.TrafficRow) float64 { return r.PerSecond(r.Dead) }}

	backlog = figure{"pending and waiting", func(r *ops.TrafficRow) float64 { return float64(r.Backlog) }}
	oldest  = figure{"oldest", func(r *ops.TrafficRow) float64 { return r.Oldest.Seconds() }}

	publishLag = []figure{
		{"published, half within", func(r *ops.TrafficRow) float64 { return orGap(r.PublishP50) }},
		{"published, 99 % within", func(r *ops.TrafficRow) float64 { return orGap(r.PublishP99) }},
	}
	handleLag = []figure{
		{"handled, half within", func(r *ops.TrafficRow) float64 { return orGap(r.HandleP50) }},
		{"handled, 99 % within", func(r *ops.TrafficRow) float64 { return orGap(r.HandleP99) }},
	}
)

// orGap returns a duration in seconds. Where nothing was measured the line has a gap.
func orGap(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return d.Seconds()
}

// chartsOf returns the charts of a selection.
func chartsOf(h *traffic.History, s traffic.Selection) []drawing {
	rows := ops.TrafficRows(h, s)
	plot := func(title string, label func(float64) string, scale []float64, figures ...figure) drawing {
		c := chart{Title: title, From: h.From, Step: h.Step, Label: label, Scale: scale}
		for _, f := range figures {
			c.Lines = append(c.Lines, line{f.name, valuesOf(rows, f)})
		}
		return draw(c)
	}
	rate := func(title string, figures ...figure) drawing { return plot(title, ops.Rate, nil, figures...) }
	lag := func(title string, figures ...figure) drawing { return plot(title, seconds, lagScale, figures...) }
	const perSecond, trouble, latency = "Messages per second", "Failures per second", "Time since the enqueue"
	switch {
	case s.Consumer != "":
		return []drawing{rate(perSecond, handled), rate(trouble, failed, retried, dead), lag(latency, handleLag...)}
	case s.Relay != "":
		return []drawing{rate(perSecond, published), rate(trouble, failed, retried, dead), lag(latency, publishLag...)}
	}
	return []drawing{
		rate(perSecond, enqueued, published, handled),
		rate(trouble, failed, retried, dead),
		lag(latency, append(publishLag[:2:2], handleLag...)...),
		plot("Backlog in messages", ops.Rate, nil, backlog),
		lag("Age of the oldest message in the backlog", oldest),
	}
}

// seconds formats a duration on an axis.
func seconds(v float64) string {
	if v == 0 {
		return "0"
	}
	return ops.Age(time.Duration(v * float64(time.Second)))
}

func valuesOf(rows []ops.TrafficRow, f figure) []float64 {
	values := make([]float64, len(rows))
	for i := range rows {
		values[i] = f.of(&rows[i])
	}
	return values
}

// lastHour returns the charts of the overview, none if there was no traffic.
func (d *Dashboard) lastHour(c *call) []drawing {
	h := d.trafficOfHour(c)
	if h == nil || len(ops.Busy(ops.TrafficRows(h, traffic.Selection{}))) == 0 {
		return nil
	}
	return chartsOf(h, traffic.Selection{})[:chartsOnTop]
}

// trafficOfHour returns the history of the last hour, nil if the store keeps none, or it could not be read.
func (d *Dashboard) trafficOfHour(c *call) *traffic.History {
	if d.traffic == nil {
		return nil
	}
	h, _, err := d.traffic[spans[0].Name].get(c.r.Context())
	if c.partial(err) != nil {
		return nil
	}
	return &h
}

// busyConsumers are those that have handled messages in the last hour, or failed to.
func (d *Dashboard) busyConsumers(c *call) []ops.NamedTraffic {
	h := d.trafficOfHour(c)
	if h == nil {
		return nil
	}
	return ops.TrafficOf(h, h.Names().Consumers, ofConsumer)
}

func ofConsumer(name string) traffic.Selection { return traffic.Selection{Consumer: name} }

// chartsOnTop is how many charts the overview shows.
const chartsOnTop = 4

// namedList is a table of the page of traffic.
type namedList struct {
	Field, Title, Span string // the field that selects one of them in URLs
	List               []ops.NamedTraffic
}

func namedTraffic(field, title, span string, list []ops.NamedTraffic) namedList {
	return namedList{field, title, span, list}
}
