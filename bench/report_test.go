package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFigure_String(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		figure figure
		want   string
	}{
		{figure{}, "–"},
		{figure{values: []float64{3}}, "3"},
		{figure{unit: "ms", values: []float64{0.512}}, "0.51 ms"},
		{figure{values: []float64{1, 1234567, 2000}}, "2,000 (1 to 1,234,567)"},
		{figure{unit: "%", values: []float64{80}, want: atLeast(80)}, "80 %, ≥ 80: met"},
		{figure{unit: "%", values: []float64{79.9}, want: atLeast(80)}, "79.9 %, ≥ 80: not met"},
		{figure{unit: "ms", values: []float64{5}, want: atMost(5)}, "5 ms, ≤ 5: met"},
		{figure{unit: "ms", values: []float64{5.1}, want: atMost(5)}, "5.10 ms, ≤ 5: not met"},
		{figure{values: []float64{79, 81, 90}, want: atLeast(80)}, "81 (79 to 90), ≥ 80: met"}, // the median counts
		{figure{values: []float64{70, 71, 80}, want: atLeast(80)}, "71 (70 to 80), ≥ 80: not met, in range"},
		{figure{values: []float64{5, 6, 7}, want: atMost(5)}, "6 (5 to 7), ≤ 5: not met, in range"},
	} {
		if got := c.figure.String(); got != c.want {
			t.Errorf("String() = %q, want %q", got, c.want)
		}
	}
}

var sampleRows = []row{
	{table: "To A", name: "floor", figures: []figure{{name: "messages/s", values: []float64{100, 200}}}},
	{table: "To A", name: "relay <1>", note: "a note", figures: []figure{{name: "messages/s", values: []float64{50}}, {"of the floor", "%", []float64{33}, atLeast(80)}}},
	{table: "To B", name: "relay", text: "Index Scan", figures: []figure{{name: "messages/s", values: []float64{7}}}},
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	got := markdown(experiment{name: "x", title: "X"}, sampleRows, "a machine")
	for _, want := range []string{
		"| To A | messages/s | of the floor |\n|---|---|---|\n| floor | 150 (100 to 200) |  |\n",
		"| relay <1> | 50 | 33 %, ≥ 80: not met |\n",
		"- relay <1>: a note.\n",
		"| To B | messages/s |\n",
		"```text\nIndex Scan\n```\n",
		"Measured on a machine.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("markdown() has no %q:\n%s", want, got)
		}
	}
}

func TestReplaceSection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "README.md")
	text := "before\n<!-- bench:drain -->\nold\n<!-- end:drain -->\nafter\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replaceSection(file, "drain", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if want := strings.Replace(text, "old", "new", 1); err != nil || string(got) != want {
		t.Errorf("the file holds %q, want %q (%v)", got, want, err)
	}
	if err := replaceSection(file, "flat", "new\n"); !errors.Is(err, errNoMarks) {
		t.Errorf("replaceSection() of a section without marks = %v, want %v", err, errNoMarks)
	}
}

// The results that are shipped have a place for every experiment.
func TestResults(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("results/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range experimentNames() {
		for _, mark := range []string{"<!-- bench:" + name + " -->\n", "<!-- end:" + name + " -->"} {
			if strings.Count(string(text), mark) != 1 {
				t.Errorf("results/README.md has not exactly one %q", mark)
			}
		}
	}
}

func TestChart(t *testing.T) {
	t.Parallel()
	picture := chart("A title", "messages/s", sampleRows)
	type rect struct {
		Width float64 `xml:"width,attr"`
		Class string  `xml:"class,attr"`
	}
	var svg struct {
		XMLName xml.Name
		Rects   []rect   `xml:"rect"`
		Texts   []string `xml:"text"`
	}
	if err := xml.NewDecoder(strings.NewReader(picture)).Decode(&svg); err != nil && err != io.EOF {
		t.Fatalf("the picture is no XML: %v\n%s", err, picture)
	}
	if len(svg.Rects) != 3 {
		t.Fatalf("%d bars, want 3", len(svg.Rects))
	}
	if floor, relay := svg.Rects[0], svg.Rects[1]; floor.Width/relay.Width < 2.9 || floor.Width/relay.Width > 3.1 {
		t.Errorf("widths %v and %v, want 3 to 1 as the medians", floor.Width, relay.Width)
	}
	if svg.Rects[0].Class != "other" || svg.Rects[1].Class != "ours" {
		t.Errorf("classes %q and %q, want other and ours", svg.Rects[0].Class, svg.Rects[1].Class)
	}
	if svg.Rects[2].Width != svg.Rects[0].Width {
		t.Error("the longest bars of two tables differ: each table has a scale of its own")
	}
	if !strings.Contains(strings.Join(svg.Texts, "|"), "relay <1>") {
		t.Errorf("texts %q lack a row's name", svg.Texts)
	}
}
