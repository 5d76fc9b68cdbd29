package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/traffic"
)

// TrafficRow is the traffic of one interval.
type TrafficRow struct {
	At      time.Time `json:"at"`
	Seconds int       `json:"seconds"` // length of the interval

	Enqueued  int64 `json:"enqueued"`
	Published int64 `json:"published"`
	Handled   int64 `json:"handled"`
	Failed    int64 `json:"failed"`
	Retried   int64 `json:"retried"`
	Dead      int64 `json:"dead"`

	PublishP50 time.Duration `json:"publish_p50_ns"`
	PublishP99 time.Duration `json:"publish_p99_ns"`
	HandleP50  time.Duration `json:"handle_p50_ns"`
	HandleP99  time.Duration `json:"handle_p99_ns"`

	Backlog int64         `json:"backlog"`
	Oldest  time.Duration `json:"oldest_ns"`
}

// TrafficRows returns the selected traffic of each interval.
func TrafficRows(h *traffic.History, s traffic.Selection) []TrafficRow {
	rows := []TrafficRow{}
	for n, c := range h.Of(s) {
		rows = append(rows, trafficRow(h.At(n), h.Step, c))
	}
	return rows
}

func trafficRow(at time.Time, length time.Duration, c traffic.Counts) TrafficRow {
	return TrafficRow{
		At: at, Seconds: int(length / time.Second),
		Enqueued: c.Enqueued, Published: c.Published, Handled: c.Handled, Failed: c.Failed, Retried: c.Retried, Dead: c.Dead,
		PublishP50: c.PublishLag.Quantile(.5), PublishP99: c.PublishLag.Quantile(.99),
		HandleP50: c.HandleLag.Quantile(.5), HandleP99: c.HandleLag.Quantile(.99),
		Backlog: c.Backlog, Oldest: c.Oldest,
	}
}

// Idle reports whether nothing happened, and nothing waited.
func (r *TrafficRow) Idle() bool {
	return r.Enqueued+r.Published+r.Handled+r.Failed+r.Retried+r.Dead+r.Backlog == 0
}

// Busy returns the rows of intervals in which something happened, or waited.
func Busy(rows []TrafficRow) []TrafficRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r TrafficRow) bool { return r.Idle() })
}

// PerSecond returns a count of the interval as a rate.
func (r *TrafficRow) PerSecond(count int64) float64 { return float64(count) / float64(r.Seconds) }

// NamedTraffic is the traffic of one topic, consumer or relay in all of a time.
type NamedTraffic struct {
	Name string
	TrafficRow
}

// TrafficOf returns the traffic of each name, in all of a time; selected makes the selection of a name.
func TrafficOf(h *traffic.History, names []string, selected func(name string) traffic.Selection) []NamedTraffic {
	var list []NamedTraffic
	for _, name := range names {
		list = append(list, NamedTraffic{name, trafficRow(h.From, time.Duration(len(h.Intervals))*h.Step, h.Total(selected(name)))})
	}
	return list
}

// Rate formats a number per second: three digits, or more where they are whole.
func Rate(perSecond float64) string {
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < .01:
		return "<0.01"
	case perSecond < 10:
		return trimZeros(fmt.Sprintf("%.2f", perSecond))
	case perSecond < 100:
		return trimZeros(fmt.Sprintf("%.1f", perSecond))
	}
	return Count(int64(perSecond + .5))
}

func trimZeros(text string) string { return strings.TrimSuffix(strings.TrimRight(text, "0"), ".") }

// Lag formats how long something took, and "" for nothing.
func Lag(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return Age(d)
}
