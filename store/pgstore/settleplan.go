package pgstore

import (
	"github.com/waybill-go/waybill/relay"
)

// settlePlan sorts settlements by what must be done with their rows. Whatever is not simply
// published goes through the waiting rows: it is parked there first, in the same
// transaction, so that each outcome needs one statement only.
type settlePlan struct {
	published []relay.Settlement // from the outbox, and done

	park     parkRows
	follow   followRows
	done     waitingRows // published, from the waiting rows
	retry    retryRows
	bury     buryRows
	schedule waitingRows
	promote  keyRows
}

func planSettle(list []relay.Settlement) *settlePlan {
	p := &settlePlan{}
	for _, st := range list {
		p.add(st)
	}
	return p
}

func (p *settlePlan) onlyPublished() bool {
	return len(p.park.position)+len(p.follow.position)+len(p.done.position)+len(p.retry.position)+
		len(p.bury.position)+len(p.schedule.position)+len(p.promote.key) == 0
}

func (p *settlePlan) add(st relay.Settlement) {
	c := st.Claim
	if st.Outcome == relay.Published && !c.Waiting && len(st.Destinations) == 0 {
		p.published = append(p.published, st)
		return
	}
	p.promote.add(c, c.Destination)
	switch st.Outcome {
	case relay.Published:
		if !c.Waiting {
			p.park.add(st, c.Destination)
		}
		for _, d := range st.Destinations {
			p.follow.add(c, d)
			p.promote.add(c, d)
		}
		p.done.add(c)
	case relay.Wait:
		if c.Waiting {
			p.retry.add(st)
		} else {
			p.park.add(st, c.Destination)
		}
	case relay.Fanout:
		for _, d := range st.Destinations {
			p.park.add(st, d)
			p.promote.add(c, d)
		}
	case relay.Dead, relay.Failed:
		if !c.Waiting {
			p.park.add(st, c.Destination)
		}
		p.bury.add(st)
	case relay.Schedule:
		if !c.Waiting {
			p.park.add(st, c.Destination)
		}
		p.schedule.add(c)
	}
}

// settleStep is one statement of a plan.
type settleStep struct {
	name, sql string
	rows      int
	args      []any
}

func (p *settlePlan) steps(sql *statements, archive bool) []settleStep {
	done := sql.deleteWaiting
	if archive {
		done = sql.archiveWaiting
	}
	return []settleStep{
		{"park", sql.park, len(p.park.position), p.park.args()},
		{"follow", sql.follow, len(p.follow.position), p.follow.args()},
		{"published", done, len(p.done.position), p.done.args()},
		{"retry", sql.retry, len(p.retry.position), p.retry.args()},
		{"dead", sql.bury, len(p.bury.position), p.bury.args()},
		{"schedule", sql.schedule, len(p.schedule.position), p.schedule.args()},
		{"promote", sql.promote, len(p.promote.key), p.promote.args()},
	}
}

type waitingRows struct {
	position    []int64
	destination []string
}

func (r *waitingRows) add(c *relay.Claim) {
	r.position = append(r.position, c.Position)
	r.destination = append(r.destination, c.Destination)
}

func (r *waitingRows) args() []any { return []any{r.position, r.destination} }

type parkRows struct {
	waitingRows
	lane           []int
	behind         []bool
	after          []float64
	attempts, life []int
	errors         []string
}

func (r *parkRows) add(st relay.Settlement, destination string) {
	r.position = append(r.position, st.Claim.Position)
	r.destination = append(r.destination, destination)
	r.lane = append(r.lane, st.Claim.Lane.Number)
	// Of several rows of one key in one statement none sees the others: all stay behind, and
	// promote lets the first go.
	fanned := st.Outcome == relay.Fanout && st.Claim.Message.Key != ""
	r.behind = append(r.behind, st.Behind || fanned)
	r.after = append(r.after, millis(st.After))
	r.attempts = append(r.attempts, st.Attempts)
	r.life = append(r.life, st.Life)
	r.errors = append(r.errors, st.Error)
}

func (r *parkRows) args() []any {
	return []any{r.lane, r.position, r.destination, r.behind, r.after, r.attempts, r.life, r.errors}
}

type followRows struct {
	waitingRows
	follower []string
}

func (r *followRows) add(c *relay.Claim, follower string) {
	r.waitingRows.add(c)
	r.follower = append(r.follower, follower)
}

func (r *followRows) args() []any { return []any{r.position, r.destination, r.follower} }

type retryRows struct {
	waitingRows
	after          []float64
	attempts, life []int
	errors         []string
}

func (r *retryRows) add(st relay.Settlement) {
	if st.Behind {
		return // it follows another row already
	}
	r.waitingRows.add(st.Claim)
	r.after = append(r.after, millis(st.After))
	r.attempts = append(r.attempts, st.Attempts)
	r.life = append(r.life, st.Life)
	r.errors = append(r.errors, st.Error)
}

func (r *retryRows) args() []any {
	return []any{r.position, r.destination, r.after, r.attempts, r.life, r.errors}
}

type buryRows struct {
	waitingRows
	reason, errors []string
	attempts       []int
	failed         []bool
}

func (r *buryRows) add(st relay.Settlement) {
	r.waitingRows.add(st.Claim)
	r.reason = append(r.reason, string(st.Reason))
	r.errors = append(r.errors, st.Error)
	r.attempts = append(r.attempts, st.Attempts)
	r.failed = append(r.failed, st.Outcome == relay.Failed)
}

func (r *buryRows) args() []any {
	return []any{r.position, r.destination, r.reason, r.errors, r.attempts, r.failed}
}

// keyRows are the keys whose first waiting row may have to be let go.
type keyRows struct{ topic, key, destination []string }

func (r *keyRows) add(c *relay.Claim, destination string) {
	if c.Message.Key == "" {
		return
	}
	r.topic = append(r.topic, c.Message.Address())
	r.key = append(r.key, c.Message.Key)
	r.destination = append(r.destination, destination)
}

func (r *keyRows) args() []any { return []any{r.topic, r.key, r.destination} }
