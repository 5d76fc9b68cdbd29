package archtest

import (
	"fmt"
	"regexp"
	"strings"
)

// Two passages are wordings of one if they share doubledWords words in a row within doubledLines
// lines. Short words say little: doubledLetters is how many letters the words must have.
const (
	doubledWords   = 7
	doubledLines   = 14
	doubledLetters = 25
)

// CheckDoubled finds passages that stand twice, close to each other, in nearly the same words: the
// old wording and the new one. Each pair is reported once. Tables and code are left out, and pages
// that a program writes.
func CheckDoubled(docs []Doc, written func(path string) bool) []Finding {
	var found []Finding
	for _, d := range docs {
		if written(d.Path) {
			continue
		}
		first, reported := map[string]int{}, 0
		words := d.words()
		for i := range max(0, len(words)-doubledWords+1) {
			run := joined(words[i : i+doubledWords])
			line := words[i].line
			before, ok := first[run]
			first[run] = line
			far := line-before > doubledLines || line == before
			short := len(run)-doubledWords+1 < doubledLetters
			if !ok || far || short || line <= reported+doubledLines && reported > 0 {
				continue
			}
			reported = line
			found = append(found, Finding{Path: d.Path, Line: line, Text: fmt.Sprintf("says again what line %d says: %s", before, run)})
		}
	}
	return found
}

// word is a word of prose, in small letters and without the marks around it.
type word struct {
	text string
	line int
}

func (d Doc) words() []word {
	var words []word
	for i, line := range d.prose() {
		if strings.HasPrefix(line, "|") {
			continue
		}
		for _, text := range strings.Fields(line) {
			words = append(words, word{strings.ToLower(strings.Trim(text, ".,;:()[]`*_")), i + 1})
		}
	}
	return words
}

func joined(words []word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = w.text
	}
	return strings.Join(texts, " ")
}

var rulePattern = regexp.MustCompile(`^\|\s*:?-`)

// CheckTables finds rows that belong to no table, because a passage has come between.
func CheckTables(docs []Doc) []Finding {
	var found []Finding
	for _, d := range docs {
		lines := append(d.prose(), "")
		for i, line := range lines {
			starts := strings.HasPrefix(line, "|") && (i == 0 || !strings.HasPrefix(lines[i-1], "|"))
			if starts && !rulePattern.MatchString(lines[i+1]) {
				found = append(found, Finding{Path: d.Path, Line: i + 1, Text: "the row belongs to no table"})
			}
		}
	}
	return found
}
