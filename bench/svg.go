package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Sizes of a chart, in its own units.
const (
	chartWidth  = 760
	labelWidth  = 250
	valueWidth  = 90
	lineHeight  = 24
	barHeight   = 14
	headHeight  = 34
	chartMargin = 12
)

// chart draws the figure of that name of each row as a bar, table by table; the bars of one
// table share a scale. The colours are readable on a light and on a dark page.
func chart(title, name string, rows []row) string {
	var body strings.Builder
	y := chartMargin
	for _, t := range tables(rows) {
		bars := barsOf(name, t.rows)
		if len(bars) == 0 {
			continue
		}
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\" class=\"head\">%s</text>\n", chartMargin, y+20, escapeXML(t.name+", "+name))
		y += headHeight
		top := slices.MaxFunc(bars, func(a, b bar) int { return cmp.Compare(a.value, b.value) }).value
		for _, b := range bars {
			drawBar(&body, b, top, y)
			y += lineHeight
		}
		y += chartMargin
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">
<title>%s</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #6b7785 }
.head { font-weight: 600; font-size: 14px }
.ours { fill: #2f81c7 } .other { fill: #9aa5b1 }
.range { stroke: #6b7785; stroke-width: 1.5 }
</style>
%s</svg>
`, chartWidth, y, chartWidth, y, escapeXML(title), body.String())
}

// bar is one value with the range of its runs.
type bar struct {
	label            string
	value, low, high float64
	ours             bool
}

func barsOf(name string, rows []row) []bar {
	var bars []bar
	for _, r := range rows {
		for _, f := range r.figures {
			if f.name == name && len(f.values) > 0 {
				low, high := limits(f.values)
				bars = append(bars, bar{r.name, median(f.values), low, high, strings.HasPrefix(r.name, "relay")})
			}
		}
	}
	return bars
}

func drawBar(s *strings.Builder, b bar, top float64, y int) {
	scale := float64(chartWidth-labelWidth-valueWidth-2*chartMargin) / math.Max(top, 1e-9)
	at := func(v float64) float64 { return float64(labelWidth) + v*scale }
	class := "other"
	if b.ours {
		class = "ours"
	}
	fmt.Fprintf(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", labelWidth-8, y+12, escapeXML(b.label))
	fmt.Fprintf(s, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\" class=\"%s\"/>\n", labelWidth, y, math.Max(1, b.value*scale), barHeight, class)
	if b.high > b.low {
		fmt.Fprintf(s, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\" class=\"range\"/>\n", at(b.low), at(b.high), y+barHeight/2, y+barHeight/2)
	}
	fmt.Fprintf(s, "<text x=\"%.1f\" y=\"%d\">%s</text>\n", at(math.Max(b.value, b.high))+6, y+12, escapeXML(number(b.value)))
}

func escapeXML(text string) string {
	var s strings.Builder
	_ = xml.EscapeText(&s, []byte(text)) // a strings.Builder never fails
	return s.String()
}
