package dashboard

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/ops"
)

const (
	groupsShown  = 200
	groupsOnTop  = 8
	checksOnTop  = 8
	replaysShown = 100
)

// overview is what the first page shows. A part that could not be read is marked as such,
// so that the rest is available when it is needed most.
type overview struct {
	Topics     []ops.Topic
	Total      ops.Topic
	StatsAt    time.Time
	StatsError *problem

	Groups      []deadletter.Group
	MoreGroups  bool
	Open        int // dead letters in the groups
	GroupsError *problem

	ops.RelayCounts
	NoRelay     bool // it is known that none is alive
	RelaysError *problem

	Running []runningReplay

	Findings []ops.Finding
	Worst    ops.Severity
	ChecksAt time.Time // when the program's own checks ran; zero if they have not yet
	Unshown  int       // findings that are on the page of checks only

	Flow flow

	Charts []drawing // of the last hour; none if the store keeps no traffic, or it could not be read
}

func (d *Dashboard) overview(c *call) error {
	if c.who.Tenant != "" {
		return c.redirect("messages") // all of the overview is counted for all tenants together
	}
	var o overview
	ctx := c.r.Context()
	stats, at, err := d.stats.get(ctx)
	o.StatsAt, o.StatsError = at, c.partial(err)
	o.Topics, o.Total = ops.Topics(stats)
	o.Flow, _, err = d.flow.get(ctx)
	c.partial(err)
	groups, err := c.letters.DeadLetterGroups(ctx, groupsShown)
	o.GroupsError = c.partial(err)
	o.Open = ops.OpenLetters(groups)
	o.Groups, o.MoreGroups = groups[:min(len(groups), groupsOnTop)], len(groups) > groupsOnTop
	if d.all.relays != nil {
		states, err := d.all.relays.RelayStates(ctx)
		o.RelaysError = c.partial(err)
		o.RelayCounts = ops.CountRelays(states)
		o.NoRelay = err == nil && o.Alive == 0
	}
	if d.all.replays != nil {
		replays, err := d.all.replays.Replays(ctx, replaysShown)
		c.partial(err)
		o.Running = d.running(replays, o.NoRelay)
	}
	o.Charts = d.lastHour(c)
	o.Findings = o.findings(stats)
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

// addChecks adds those findings of the program's own checks that need attention. The rest
// is on a separate page.
func (o *overview) addChecks(found []ops.Finding, at time.Time) {
	own := len(found)
	found = slices.DeleteFunc(slices.Clone(found), func(f ops.Finding) bool { return !ops.IsTrouble(f) })
	found = found[:min(len(found), checksOnTop)]
	o.ChecksAt, o.Unshown = at, own-len(found)
	o.Findings = append(o.Findings, found...)
	slices.SortStableFunc(o.Findings, ops.ByGravity)
	o.Worst = ops.Worst(o.Findings)
}

// findings are what the dashboard itself detects.
func (o *overview) findings(stats []inspect.Stats) []ops.Finding {
	var list []ops.Finding
	if p := o.StatsError; p != nil {
		list = append(list, ops.Finding{Severity: ops.Problem, Subject: "store", Found: p.title, Advice: p.text})
	}
	if o.NoRelay || o.Alive > 0 {
		list = append(list, ops.CheckRelays(o.RelayCounts)...)
	}
	for _, r := range o.Running {
		if r.Idle != "" {
			list = append(list, ops.Finding{Severity: ops.Warning, Subject: fmt.Sprintf("replay %d", r.Number), Found: r.Idle, Advice: "Look at the relays, and at their logs."})
		}
	}
	list = append(list, ops.CheckPending(stats, o.Alive > 0), ops.CheckDead(stats))
	return slices.DeleteFunc(list, func(f ops.Finding) bool { return !ops.IsTrouble(f) })
}

// relays is the page of relays and lanes.
func (d *Dashboard) relays(c *call) error {
	states, err := d.all.relays.RelayStates(c.r.Context())
	if err != nil {
		return err
	}
	return c.show(http.StatusOK, "relays", "Relays and lanes", ops.CountRelays(states))
}
