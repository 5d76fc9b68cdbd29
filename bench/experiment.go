package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// experiment is one experiment, whose results are rows of figures.
type experiment struct {
	name  string // of the -only flag, and of its section in the results
	title string
	chart string // the figure that is drawn as bars; "" draws nothing
	run   func(ctx context.Context, b *bench) ([]row, error)
}

// experiments are all experiments, in the order in which they run.
var experiments = []experiment{
	{"drain", "Draining a backlog", "messages/s", runDrain},
	{"recorder", "What a recording costs", "", runRecorder},
	{"network", "The same, with a network of 1 ms", "messages/s", runNetwork},
	{"replicas", "Replicas", "", runReplicas},
	{"latency", "From commit to confirmation", "", runLatency},
	{"wakeups", "What the wake-up costs the writer", "", runWakeups},
	{"steady", "Producers with a relay at work", "", runSteady},
	{"writers", "What an enqueue costs its transaction", "", runWriters},
	{"inbox", "What it costs to handle a message once", "", runInbox},
	{"records", "An inbox that holds many records", "", runRecords},
	{"stores", "MariaDB and SQLite", "", runStores},
	{"endtoend", "From the outbox to a handler", "", runEndToEnd},
	{"saga", "What a saga costs", "messages/s", runSaga},
	{"flat", "What must not slow it down", "", runFlat},
	{"explain", "Plans of the relay's statements", "", runExplain},
	{"schedule", "What is scheduled for later", "", runSchedule},
	{"letters", "What operators ask", "", runLetters},
	{"inboxhttp", "The inbox service", "", runInboxHTTP},
	{"brokers", "Adapters compared with their client libraries", "", runBrokers},
}

func experimentNames() []string {
	var names []string
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return names
}

// row is one line of a table: a contender, or a situation.
type row struct {
	table   string // the heading of the table that it belongs to
	name    string
	figures []figure
	note    string // its particularities, or what it does not do
	text    string // a plan, shown below the table
}

// figure is a quantity with everything that was measured of it.
type figure struct {
	name   string
	unit   string
	values []float64
	want   *bound // target of its median; nil if it is informational
}

// bound is a target.
type bound struct {
	least bool // the median must not be below the limit, else not above
	limit float64
}

func atLeast(limit float64) *bound { return &bound{true, limit} }
func atMost(limit float64) *bound  { return &bound{false, limit} }

func (b *bound) met(value float64) bool {
	if b.least {
		return value >= b.limit
	}
	return value <= b.limit
}

func (b *bound) sign() string {
	if b.least {
		return "≥"
	}
	return "≤"
}

// String returns the median, the range if there are several values, and the target:
// "83 % (80 to 85), ≥ 80: met".
func (f figure) String() string {
	if len(f.values) == 0 {
		return "–"
	}
	m := median(f.values)
	var s strings.Builder
	s.WriteString(number(m))
	if f.unit != "" {
		s.WriteString(" " + f.unit)
	}
	if low, high := limits(f.values); len(f.values) > 1 {
		fmt.Fprintf(&s, " (%s to %s)", number(low), number(high))
	}
	if f.want != nil {
		fmt.Fprintf(&s, ", %s %s: %s", f.want.sign(), number(f.want.limit), f.verdict())
	}
	return s.String()
}

func (f figure) verdict() string {
	low, high := limits(f.values)
	switch {
	case f.want.met(median(f.values)):
		return "met"
	case f.want.met(low) || f.want.met(high):
		return "not met, in range"
	}
	return "not met"
}

// number formats a value with three or four significant digits, thousands
// separated.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a == math.Trunc(a) && a < 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 1000:
		return thousands(strconv.FormatFloat(v, 'f', 0, 64))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}
