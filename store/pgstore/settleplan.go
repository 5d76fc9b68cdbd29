package pgstore

import (
	"slices"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqlstore"
)

// settleStep is one statement of a plan.
type settleStep struct {
	name, sql string
	rows      int
	args      []any
}

// steps returns the statements for the parts of a plan that go through the waiting rows, in order.
func (s *statements) steps(p *settleplan.Plan, req contract.SettleRequest) []settleStep {
	done := s.DeleteWaiting
	if req.Archive {
		done = s.ArchiveWaiting
	}
	together := slices.IndexFunc(p.Retry, func(r settleplan.Row) bool { return !r.Alone })
	if together < 0 {
		together = len(p.Retry)
	}
	return []settleStep{
		{"hold letters", s.HoldLetters, len(p.Promote), units(p.Promote)},
		{"park", s.Park, len(p.Park), []any{
			column(p.Park, func(r settleplan.Row) int { return r.Lane }), positions(p.Park), destinations(p.Park),
			behind(p.Park), alone(p.Park), after(p.Park), attempts(p.Park), lives(p.Park), errorTexts(p.Park), req.Node, tooks(p.Park),
			column(p.Park, func(r settleplan.Row) string { return r.ID })}},
		{"follow", s.Follow, len(p.Follow), []any{
			positions(p.Follow), destinations(p.Follow), column(p.Follow, func(r settleplan.Row) string { return r.Follower })}},
		{"published", done, len(p.Done), []any{positions(p.Done), destinations(p.Done)}},
		{"routed", s.DeleteWaiting, len(p.Routed), []any{positions(p.Routed), destinations(p.Routed)}},
		{"dead", s.Bury, len(p.Bury), []any{
			positions(p.Bury), destinations(p.Bury), column(p.Bury, func(r settleplan.Row) string { return string(r.Reason) }),
			errorTexts(p.Bury), attempts(p.Bury), column(p.Bury, func(r settleplan.Row) bool { return r.Failed }),
			column(p.Bury, func(r settleplan.Row) bool { return r.Parks }),
			column(p.Bury, func(r settleplan.Row) string { return r.Fingerprint }), req.Node, tooks(p.Bury)}},
		{"schedule", s.Schedule, len(p.Schedule), []any{positions(p.Schedule), destinations(p.Schedule)}},
		s.retryStep(p.Retry[:together], req.Node), // a statement does not see what it changes itself
		s.retryStep(p.Retry[together:], req.Node),
		{"promote", s.Promote, len(p.Promote), units(p.Promote)},
	}
}

func (s *statements) retryStep(rows []settleplan.Row, node string) settleStep {
	return settleStep{"retry", s.Retry, len(rows), []any{
		positions(rows), destinations(rows), behind(rows), alone(rows), after(rows), attempts(rows), lives(rows), errorTexts(rows), node, tooks(rows)}}
}

// units returns units as unitInput takes them.
func units(list []settleplan.Unit) []any {
	return []any{
		column(list, func(u settleplan.Unit) string { return u.Topic }),
		column(list, func(u settleplan.Unit) string { return u.Key }),
		column(list, func(u settleplan.Unit) string { return u.Destination }),
	}
}

// column returns one value of each row, as the statements take them.
func column[R, V any](rows []R, value func(R) V) []V {
	values := make([]V, len(rows))
	for i, r := range rows {
		values[i] = value(r)
	}
	return values
}

func positions(rows []settleplan.Row) []int64 {
	return column(rows, func(r settleplan.Row) int64 { return r.Position })
}

func destinations(rows []settleplan.Row) []string {
	return column(rows, func(r settleplan.Row) string { return r.Destination })
}

func behind(rows []settleplan.Row) []bool {
	return column(rows, func(r settleplan.Row) bool { return r.Behind })
}

func alone(rows []settleplan.Row) []bool {
	return column(rows, func(r settleplan.Row) bool { return r.Alone })
}

func after(rows []settleplan.Row) []float64 {
	return column(rows, func(r settleplan.Row) float64 { return sqlstore.Millis(r.After) })
}

func attempts(rows []settleplan.Row) []int {
	return column(rows, func(r settleplan.Row) int { return r.Attempts })
}

func lives(rows []settleplan.Row) []int {
	return column(rows, func(r settleplan.Row) int { return r.Life })
}

func errorTexts(rows []settleplan.Row) []string {
	return column(rows, func(r settleplan.Row) string { return r.Error })
}

func tooks(rows []settleplan.Row) []int64 {
	return column(rows, func(r settleplan.Row) int64 { return int64(r.Took) })
}
