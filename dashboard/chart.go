package dashboard

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
)

// chart is what is drawn: lines over a time, all with the same scale.
type chart struct {
	Title string
	From  time.Time
	Step  time.Duration
	Lines []line
	Label func(value float64) string
	Scale []float64 // the steps that the axis of values may have; nil for 1, 2 and 5 times the powers of ten
}

// line is a value for each step. One that is NaN is a gap.
type line struct {
	Name   string
	Values []float64
}

// The sizes of a drawing, in its own units.
const (
	plotWidth    = 640
	plotHeight   = 190
	plotLeft     = 58 // of the lines; to their left are the labels of values
	plotRight    = plotWidth - 10
	plotTop      = 12
	plotBottom   = plotHeight - 24
	valueTicks   = 4 // at most
	timeTicks    = 7 // at most
	leastOfScale = 1e-3
)

// drawing is a chart as its template needs it.
type drawing struct {
	Title, Description                    string
	Width, Height                         int
	Left, Right, Top, Bottom, Above, Text int // of the plot; Above is where labels of values end, Text the baseline of times
	Values, Times                         []tick
	Lines                                 []drawnLine
}

// tick is a labelled place on an axis.
type tick struct {
	At    string
	Label string
}

// drawnLine is a line, and what the legend says of it.
type drawnLine struct {
	Name, Path    string
	Style         int // of its colour and dashes
	Last, Highest string
}

// draw computes a drawing. It reads no clock.
func draw(c chart) drawing {
	highest, n := highestOf(c.Lines), steps(c.Lines)
	step := stepOf(highest, c.Scale)
	top := step * math.Max(1, math.Ceil(highest/step))
	d := drawing{
		Title: c.Title, Description: describe(c),
		Width: plotWidth, Height: plotHeight, Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom, Above: plotLeft - 8, Text: plotHeight - 6,
	}
	for v := 0.0; v <= top*1.0001; v += step {
		d.Values = append(d.Values, tick{place(y(v, top)), c.Label(v)})
	}
	d.Times = timesOf(c.From, c.Step, n)
	for i, l := range c.Lines {
		last, most := "–", "–"
		if v := lastOf(l.Values); !math.IsNaN(v) {
			last = c.Label(v)
		}
		if v := highestOf([]line{l}); hasValue(l.Values) {
			most = c.Label(v)
		}
		d.Lines = append(d.Lines, drawnLine{Name: l.Name, Path: pathOf(l.Values, top), Style: i + 1, Last: last, Highest: most})
	}
	return d
}

// describe says in words what a chart shows.
func describe(c chart) string {
	var parts []string
	for _, l := range c.Lines {
		if hasValue(l.Values) {
			parts = append(parts, fmt.Sprintf("%s: %s at the end, %s at most", l.Name, c.Label(lastOr(l.Values, 0)), c.Label(highestOf([]line{l}))))
		} else {
			parts = append(parts, l.Name+": nothing")
		}
	}
	until := c.From.Add(time.Duration(steps(c.Lines)) * c.Step)
	return fmt.Sprintf("%s from %s to %s. %s.", c.Title, ops.Moment(&c.From), ops.Moment(&until), strings.Join(parts, "; "))
}

func steps(lines []line) int {
	if len(lines) == 0 {
		return 0
	}
	return len(lines[0].Values)
}

func highestOf(lines []line) float64 {
	highest := 0.0
	for _, l := range lines {
		for _, v := range l.Values {
			if v > highest { // never for NaN
				highest = v
			}
		}
	}
	return highest
}

func hasValue(values []float64) bool { return !math.IsNaN(lastOr(values, math.NaN())) }

// lastOf returns the last value, NaN if that is a gap.
func lastOf(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return values[len(values)-1]
}

// lastOr returns the last value that is no gap, or otherwise if there is none.
func lastOr(values []float64, otherwise float64) float64 {
	for i := len(values) - 1; i >= 0; i-- {
		if !math.IsNaN(values[i]) {
			return values[i]
		}
	}
	return otherwise
}

// stepOf returns the distance of the ticks of an axis that reaches highest.
func stepOf(highest float64, scale []float64) float64 {
	for _, s := range scale {
		if highest <= s*valueTicks {
			return s
		}
	}
	highest = math.Max(highest, leastOfScale)
	power := math.Pow(10, math.Floor(math.Log10(highest/valueTicks)))
	for _, factor := range [...]float64{1, 2, 5} {
		if highest <= factor*power*valueTicks {
			return factor * power
		}
	}
	return 10 * power
}

func y(value, top float64) float64 { return plotBottom - value/top*(plotBottom-plotTop) }

func x(i, n int) float64 {
	return plotLeft + float64(i)/float64(max(1, n-1))*(plotRight-plotLeft)
}

func place(at float64) string { return fmt.Sprintf("%.1f", at) }

// pathOf returns the path of a line. A value between gaps is a dot.
func pathOf(values []float64, top float64) string {
	var b strings.Builder
	gap := true
	for i, v := range values {
		if math.IsNaN(v) {
			gap = true
			continue
		}
		if gap {
			fmt.Fprintf(&b, "M%s %sh.01", place(x(i, len(values))), place(y(v, top)))
		} else {
			fmt.Fprintf(&b, "L%s %s", place(x(i, len(values))), place(y(v, top)))
		}
		gap = false
	}
	return b.String()
}

// timeSteps are the distances of the ticks of an axis of times.
var timeSteps = []time.Duration{
	time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
	24 * time.Hour, 7 * 24 * time.Hour, 28 * 24 * time.Hour, 56 * 24 * time.Hour,
}

// timesOf returns the ticks of n steps.
func timesOf(from time.Time, step time.Duration, n int) []tick {
	distance := timeSteps[len(timeSteps)-1]
	for i := len(timeSteps) - 1; i >= 0; i-- {
		if time.Duration(n)*step <= timeSteps[i]*timeTicks {
			distance = timeSteps[i]
		}
	}
	format := "15:04"
	if distance >= 24*time.Hour {
		format = "Jan 2"
	}
	var list []tick
	for i := range n {
		if at := from.Add(time.Duration(i) * step); at.Equal(at.Truncate(distance)) {
			list = append(list, tick{place(x(i, n)), at.Format(format)})
		}
	}
	return list
}

// lagScale are the steps of an axis of durations, in seconds.
var lagScale = []float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400}
