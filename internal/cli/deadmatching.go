package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/ops"
)

// matching summarises the dead letters that a filter matches.
type matching struct {
	Letters int             `json:"letters"`
	Groups  []matchingGroup `json:"groups"` // the largest first

	numbers []int64
}

type matchingGroup struct {
	Group   string `json:"fingerprint"`
	Letters int    `json:"letters"`
	Error   string `json:"error"` // of the latest one
}

const pageOfLetters = 1000

// matchingLetters reads the open dead letters that a filter matches and that are not being requeued.
func (p *program) matchingLetters(ctx context.Context, store deadletter.Store, f deadletter.Filter) (*matching, error) {
	defer p.endProgress()
	m := &matching{numbers: []int64{}}
	groups := make(map[string]matchingGroup)
	for f.Limit = pageOfLetters; ; {
		page, err := store.DeadLetters(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			f.After = l.Number
			if l.Requeued {
				continue
			}
			m.numbers = append(m.numbers, l.Number)
			groups[l.Fingerprint] = matchingGroup{Group: l.Fingerprint, Letters: groups[l.Fingerprint].Letters + 1, Error: l.Error}
		}
		p.progressf("%s so far", ops.Plural(len(m.numbers), "letter"))
		if len(page) < f.Limit {
			break
		}
	}
	m.Letters, m.Groups = len(m.numbers), []matchingGroup{}
	for _, g := range groups {
		m.Groups = append(m.Groups, g)
	}
	slices.SortFunc(m.Groups, func(a, b matchingGroup) int { return cmp.Or(b.Letters-a.Letters, cmp.Compare(a.Group, b.Group)) })
	return m, nil
}

// settleMatching uses the verb on the dead letters that a filter matches, once they are known and confirmed.
func (p *program) settleMatching(ctx context.Context, s ops.Stores, c *letterChoice) error {
	m, err := p.matchingLetters(ctx, s.Letters, c.Filter)
	if err != nil {
		return err
	}
	if p.json && c.dryRun {
		return p.printJSON(m)
	}
	if m.Letters == 0 && !p.json {
		_, err := fmt.Fprintf(p.stdout, ops.NothingToBe+"\n", c.verb.Past)
		return err
	}
	p.previewMatching(m, c)
	if c.dryRun {
		_, err := fmt.Fprintf(p.stdout, "%s would be %s.\n", ops.Plural(m.Letters, "dead letter"), c.verb.Past)
		return err
	}
	if m.Letters > 0 {
		if err := p.confirm(c.yes, c.verb.Name+" "+ops.Plural(m.Letters, "dead letter")); err != nil {
			return err
		}
	}
	return p.settleAll(ctx, s, m, c)
}

const previewedGroups = 10

func (p *program) previewMatching(m *matching, c *letterChoice) {
	if p.json {
		return
	}
	rows := make([][]string, 0, previewedGroups)
	for _, g := range m.Groups[:min(len(m.Groups), previewedGroups)] {
		rows = append(rows, []string{ops.Count(g.Letters), g.Group, ops.Short(g.Error, 80)})
	}
	_ = writeTable(p.stderr, []string{"LETTERS", "GROUP", "ERROR"}, rows) // a preview that nobody sees does no harm: the question comes after it
	if more := len(m.Groups) - len(rows); more > 0 {
		p.hintf("and %s more", ops.Plural(more, "group"))
	}
	if c.verb.Audit == deadletter.ActRequeue && m.Letters > pageOfLetters {
		p.hintf("To requeue many at a limited rate: %s", c.typed("waybill dead replay"))
	}
}

const shownFailures = 10

// settleAll uses the verb on dead letters that were found before. Those that others have handled in the meantime are
// not failures.
func (p *program) settleAll(ctx context.Context, s ops.Stores, m *matching, c *letterChoice) error {
	outcomes, stopped := c.each(ctx, s, m.numbers, func(done int) {
		p.progressf("%s %s of %s", ops.Capital(c.verb.Past), ops.Count(done), ops.Count(len(m.numbers)))
	})
	p.endProgress()
	done, others, failed := 0, 0, 0
	for i := range outcomes {
		out := &outcomes[i]
		out.Failed = out.Failed && !out.Gone
		switch {
		case out.Done:
			done++
		case !out.Failed:
			others++
		default:
			if failed++; failed <= shownFailures {
				p.printFailed(c.verb, *out)
			}
		}
	}
	if failed > shownFailures {
		fmt.Fprintf(p.stderr, "waybill: %s more were not %s\n", ops.Count(failed-shownFailures), c.verb.Past)
	}
	if stopped == nil && failed > 0 {
		stopped = silent
	}
	if p.json {
		return cmp.Or(p.printJSON(c.outcomeRows(outcomes)), stopped)
	}
	_, err := fmt.Fprintf(p.stdout, "%s %s.\n", ops.Capital(c.verb.Past), ops.Plural(done, "dead letter"))
	if others > 0 {
		p.hintf("%s had been dealt with in the meantime.", ops.Plural(others, "other"))
	}
	return cmp.Or(err, stopped)
}
