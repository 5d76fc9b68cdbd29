package main

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/relaycore"
)

// shrinkSeeds is how many seeds a smaller plan is tried with.
const shrinkSeeds = 200

// runPlan runs a plan.
func runPlan(p plan) error { return newWorld(p, nil).run() }

// shrink returns the smallest failing plan found, and its error: it makes a plan smaller in one way
// after the other, for as long as one of some seeds still fails.
func shrink(p plan, run func(plan) error, seeds uint64) (plan, error) {
	err := run(p)
	if err == nil {
		return p, nil
	}
	same := promiseOf(err)
	for smaller := true; smaller; {
		smaller = false
		for _, try := range p.smaller() {
			if found, broken := failing(try, run, same, seeds); broken != nil {
				p, err, smaller = found, broken, true
				break
			}
		}
	}
	return p, err
}

// promiseOf returns the first line of an error, without the names and numbers in it.
func promiseOf(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	_, text, _ := strings.Cut(line, ": ")
	words := slices.DeleteFunc(strings.Fields(text), func(word string) bool { return strings.ContainsAny(word, "0123456789") })
	return strings.Join(words, " ")
}

// failing returns the plan with the first seed with which the same promise is broken.
func failing(p plan, run func(plan) error, promise string, seeds uint64) (plan, error) {
	own := p.Seed
	for seed := range seeds {
		if p.Seed = seed; seed == 0 {
			p.Seed = own
		}
		if err := run(p); err != nil && promiseOf(err) == promise {
			return p, err
		}
	}
	return p, nil
}

// smaller returns plans that are smaller in one way, the simplest first.
func (p *plan) smaller() (list []plan) {
	add := func(is bool, change func(*plan)) {
		if is {
			next := *p
			change(&next)
			list = append(list, next)
		}
	}
	add(p.Messages > 1 && !p.Backlog, func(p *plan) { p.Messages = max(1, p.Messages/3) })
	add(p.Messages > 1 && !p.Backlog, func(p *plan) { p.Messages-- })
	add(p.Relays > 1, func(p *plan) { p.Relays-- })
	add(len(p.Dests) > 1, func(p *plan) { p.Dests = []string{""} })
	add(p.Lanes > 1, func(p *plan) { p.Lanes /= 2 })
	add(p.Topics > 1, func(p *plan) { p.Topics-- })
	add(p.Keys > 1, func(p *plan) { p.Keys /= 2 })
	add(p.Faults > 0, func(p *plan) { p.Faults, p.Kinds = 0, nil })
	for i := range p.Kinds {
		add(true, func(p *plan) { p.Kinds = slices.Delete(slices.Clone(p.Kinds), i, i+1) })
	}
	add(p.For > 5*time.Second, func(p *plan) { p.For /= 2 })
	add(p.Follower, func(p *plan) { p.Follower = false })
	add(p.Rate > 0, func(p *plan) { p.Rate = 0 })
	add(p.Dated, func(p *plan) { p.Dated = false })
	add(p.Skewed, func(p *plan) { p.Skewed = false })
	add(p.Bursts, func(p *plan) { p.Bursts = false })
	add(p.Dedup, func(p *plan) { p.Dedup = false })
	add(p.Late, func(p *plan) { p.Late = false })
	add(p.Order > 0, func(p *plan) { p.Order = relaycore.Block })
	add(p.Mixed, func(p *plan) { p.Mixed = false })
	add(p.Readers > 0, func(p *plan) { p.Readers, p.Limit = 0, 0 })
	add(p.Limit > 0, func(p *plan) { p.Limit = 0 })
	add(p.Tenants > 1, func(p *plan) { p.Tenants = 1 })
	add(p.Slow, func(p *plan) { p.Slow = false })
	add(p.Rough, func(p *plan) { p.Rough = false })
	add(p.Large, func(p *plan) { p.Large = false })
	add(p.Odd, func(p *plan) { p.Odd = false })
	add(p.Routed, func(p *plan) { p.Routed = false })
	add(p.Unkept, func(p *plan) { p.Unkept = false })
	add(p.Ahead, func(p *plan) { p.Ahead = false })
	add(p.Batch > 1, func(p *plan) { p.Batch = max(1, p.Batch/3) })
	add(p.Parallel > 1, func(p *plan) { p.Parallel = 1 })
	return list
}
