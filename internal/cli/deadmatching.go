package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// matching is what a filter matches.
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

// matchingLetters reads the open letters that a filter matches and that are not on their way.
func (p *program) matchingLetters(ctx context.Context, store opener.Store, f deadletter.Filter) (*matching, error) {
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
		p.progressf("%s so far", plural(len(m.numbers), "letter"))
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

// settleMatching does the action to what a filter matches, once that is known and wanted.
func (p *program) settleMatching(ctx context.Context, store opener.Store, c *letterChoice, action letterAction) error {
	m, err := p.matchingLetters(ctx, store, c.Filter)
	if err != nil {
		return err
	}
	if p.json && c.dryRun {
		return p.printJSON(m)
	}
	if m.Letters == 0 && !p.json {
		_, err := fmt.Fprintf(p.stdout, "No dead letter matches; nothing is to be %s.\n", action.done)
		return err
	}
	p.previewMatching(m, c, action)
	if c.dryRun {
		_, err := fmt.Fprintf(p.stdout, "%s would be %s.\n", plural(m.Letters, "dead letter"), action.done)
		return err
	}
	if m.Letters > 0 {
		if err := p.confirm(c.yes, action.verb+" "+plural(m.Letters, "dead letter")); err != nil {
			return err
		}
	}
	return p.settleAll(ctx, store, m, c.act, action)
}

const previewedGroups = 10

func (p *program) previewMatching(m *matching, c *letterChoice, action letterAction) {
	if p.json {
		return
	}
	rows := make([][]string, 0, previewedGroups)
	for _, g := range m.Groups[:min(len(m.Groups), previewedGroups)] {
		rows = append(rows, []string{thousands(g.Letters), g.Group, short(g.Error, 80)})
	}
	_ = writeTable(p.stderr, []string{"LETTERS", "GROUP", "ERROR"}, rows) // a preview that nobody sees does no harm: the question comes after it
	if more := len(m.Groups) - len(rows); more > 0 {
		p.hintf("and %s more", plural(more, "group"))
	}
	if action.advice != nil && m.Letters > pageOfLetters {
		p.hintf("%s", action.advice(&c.letterFilter))
	}
}

// settleAll does the action to letters that were found before. Those that others have dealt
// with in the meantime are no failures.
func (p *program) settleAll(ctx context.Context, store opener.Store, m *matching, act deadletter.Act, action letterAction) error {
	defer p.endProgress()
	outcomes := make([]letterOutcome, 0, len(m.numbers))
	var stopped error
	for i, n := range m.numbers {
		out, err := settleOne(ctx, store, n, act, action)
		if stopped = err; err != nil {
			break
		}
		out.failed = out.failed && !out.overtaken
		outcomes = append(outcomes, out)
		p.progressf("%s %s of %s", capital(action.done), thousands(i+1), thousands(len(m.numbers)))
	}
	p.endProgress()
	failed, err := p.printSummary(outcomes, action)
	switch {
	case err != nil:
		return err
	case stopped != nil:
		return stopped
	case failed > 0:
		return silent
	}
	return nil
}

const shownFailures = 10

// printSummary tells how often it went well, and some of those that did not.
func (p *program) printSummary(outcomes []letterOutcome, action letterAction) (failed int, err error) {
	done, others := 0, 0
	rows := make([]map[string]any, len(outcomes))
	for i, out := range outcomes {
		rows[i] = out.row(action)
		switch {
		case out.done:
			done++
		case !out.failed:
			others++
		default:
			if failed++; failed <= shownFailures {
				fmt.Fprintf(p.stderr, "waybill: dead letter %d was not %s: %s\n", out.number, action.done, clean(out.text))
			}
		}
	}
	if failed > shownFailures {
		fmt.Fprintf(p.stderr, "waybill: %s more were not %s\n", thousands(failed-shownFailures), action.done)
	}
	if p.json {
		return failed, p.printJSON(rows)
	}
	_, err = fmt.Fprintf(p.stdout, "%s %s.\n", capital(action.done), plural(done, "dead letter"))
	if others > 0 {
		p.hintf("%s had been dealt with in the meantime.", plural(others, "other"))
	}
	return failed, err
}
