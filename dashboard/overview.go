package dashboard

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/relay"
)

const (
	groupsShown  = 200
	groupsOnTop  = 8
	checksOnTop  = 8
	replaysShown = 100

	lateAfter = time.Minute // an older message that was never tried means that no relay works
)

// overview is what the first page shows. A part that could not be read is marked as such,
// so that the rest is there when it is needed most.
type overview struct {
	Topics     []topicRow
	StatsAt    time.Time
	StatsError *problem

	Pending, Waiting int64
	Oldest           time.Duration // of what is pending

	Groups      []deadletter.Group
	MoreGroups  bool
	Open        int // letters in the groups
	GroupsError *problem

	Relays      []relay.NodeState
	Alive       int
	Lanes       int   // owned by relays that are alive
	Unowned     []int // lanes that nobody owns
	NoRelay     bool  // it is known that none is alive
	RelaysError *problem

	Running []runningReplay

	Findings []Finding
	Worst    Level
	ChecksAt time.Time // when the program's own checks were made; zero if they were not yet
	Unshown  int       // findings that are on the page of checks only

	Flow flow
}

// topicRow is a row of the table of topics.
type topicRow struct {
	Topic                                           string
	Pending, Waiting, Scheduled, Published, GivenUp int64
	Oldest                                          time.Duration // of what is pending or waits
}

func (d *Dashboard) overview(c *call) error {
	if c.who.Tenant != "" {
		return c.redirect("messages") // all of the overview is counted for all tenants together
	}
	var o overview
	ctx := c.r.Context()
	stats, at, err := d.stats.get(ctx)
	o.StatsAt, o.StatsError = at, c.partial(err)
	o.count(stats)
	o.Flow, _, err = d.flow.get(ctx)
	c.partial(err)
	groups, err := c.letters.DeadLetterGroups(ctx, groupsShown)
	o.GroupsError = c.partial(err)
	for _, g := range groups {
		o.Open += g.Open
	}
	o.Groups, o.MoreGroups = groups[:min(len(groups), groupsOnTop)], len(groups) > groupsOnTop
	if d.all.relays != nil {
		o.Relays, err = d.all.relays.RelayStates(ctx)
		o.RelaysError = c.partial(err)
		o.countLanes()
		o.NoRelay = err == nil && o.Alive == 0
	}
	if d.all.replays != nil {
		replays, err := d.all.replays.Replays(ctx, replaysShown)
		c.partial(err)
		o.Running = d.running(replays, o.NoRelay)
	}
	o.Findings = o.findings()
	o.addChecks(d.checks.get(ctx))
	return c.show(http.StatusOK, "overview", "Overview", o)
}

// partial logs the error of one part of a page and returns what to show in its place.
func (c *call) partial(err error) *problem {
	if err == nil {
		return nil
	}
	return c.explain(err)
}

// count sums the statistics up by topic.
func (o *overview) count(stats []outbox.Stats) {
	rows := make(map[string]*topicRow)
	for _, s := range stats {
		row := rows[s.Topic]
		if row == nil {
			row = &topicRow{Topic: s.Topic}
			rows[s.Topic] = row
		}
		switch s.Status {
		case outbox.Pending:
			row.Pending, row.Oldest = s.Count, max(row.Oldest, s.Oldest)
			o.Pending, o.Oldest = o.Pending+s.Count, max(o.Oldest, s.Oldest)
		case outbox.Waiting:
			row.Waiting, row.Oldest = s.Count, max(row.Oldest, s.Oldest)
			o.Waiting += s.Count
		case outbox.Scheduled:
			row.Scheduled = s.Count
		case outbox.Published:
			row.Published = s.Count
		case outbox.Dead, outbox.Failed:
			row.GivenUp += s.Count
		}
	}
	for _, row := range rows {
		o.Topics = append(o.Topics, *row)
	}
	slices.SortFunc(o.Topics, func(a, b topicRow) int {
		return cmp.Or(cmp.Compare(b.Pending+b.Waiting+b.GivenUp, a.Pending+a.Waiting+a.GivenUp), cmp.Compare(a.Topic, b.Topic))
	})
}

// addChecks adds what the program's own checks found and somebody should look at. The rest
// is on a page of its own.
func (o *overview) addChecks(found []Finding, at time.Time) {
	own := len(found)
	found = slices.DeleteFunc(slices.Clone(found), func(f Finding) bool { return !isTrouble(f) })
	found = found[:min(len(found), checksOnTop)]
	o.ChecksAt, o.Unshown = at, own-len(found)
	o.Findings = append(o.Findings, found...)
	slices.SortStableFunc(o.Findings, byGravity)
	o.Worst = worst(o.Findings)
}

// countLanes takes the lanes that nobody owns, which have no node, from among the relays.
func (o *overview) countLanes() {
	all := o.Relays
	o.Relays = nil
	for _, r := range all {
		if r.Node == "" {
			o.Unowned = r.Lanes
			continue
		}
		o.Relays = append(o.Relays, r)
		if r.Alive {
			o.Alive++
			o.Lanes += len(r.Lanes)
		}
	}
}

// findings are what the dashboard sees by itself.
func (o *overview) findings() []Finding {
	var list []Finding
	if p := o.StatsError; p != nil {
		list = append(list, Finding{Fail, "store", p.title, p.text})
	}
	if o.NoRelay {
		list = append(list, Finding{Fail, "relays", "No relay is running", "Start one, or nothing is published."})
	}
	if o.Alive > 0 && len(o.Unowned) > 0 {
		list = append(list, Finding{Warn, "lanes", plural(len(o.Unowned), "lane") + " owned by nobody",
			"A relay takes them within seconds; if it stays so, look at its log."})
	}
	if o.Oldest > lateAfter {
		list = append(list, Finding{Warn, "backlog", fmt.Sprintf("The oldest pending message is %s old", span(o.Oldest)),
			"Look whether a relay runs, and whether it reaches its broker."})
	}
	for _, r := range o.Running {
		if r.Idle != "" {
			list = append(list, Finding{Warn, fmt.Sprintf("replay %d", r.Number), r.Idle, "Look at the relays, and at their logs."})
		}
	}
	if o.Open > 0 {
		list = append(list, Finding{Warn, "dead letters", plural(o.Open, "dead letter") + " open",
			"Look at the groups, fix the cause, then replay them."})
	}
	return list
}

// relays is the page of relays and lanes.
func (d *Dashboard) relays(c *call) error {
	if d.all.relays == nil {
		return errNoPage
	}
	states, err := d.all.relays.RelayStates(c.r.Context())
	if err != nil {
		return err
	}
	o := overview{Relays: states}
	o.countLanes()
	return c.show(http.StatusOK, "relays", "Relays and lanes", o)
}
