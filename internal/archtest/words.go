package archtest

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// words are phrases that have a standard term, and that term. A space in a pattern matches any white space, and the start of a comment
// line.
var words = []struct{ phrase, instead string }{
	{`under way`, "in flight, in progress, running"},
	{`on (?:its|their) way`, "in flight, pending"},
	{`what is on the way`, "what is in flight"},
	{`(?:is|are|be|was|were|been|being) told`, "receives, is notified; is configured"},
	{`anew`, "again; recreate, restart"},
	{`beside`, "next to, with, in addition to"},
	{`so (?:many|much)`, "the number, the amount; N"},
	{`what holds everywhere`, "conventions"},
	{`asked wrongly`, "usage error"},
	{`put(?:s|ting)? back`, "requeue, return"},
	{`let(?:s|ting)? go`, "release"},
	{`given up`, "dead-lettered; released, abandoned"},
	{`(?:give|gives|gave|giving) up on`, "dead-letter; abandon"},
	{`sent away`, "deferred"},
	{`put(?:s|ting)? aside`, "deferred"},
	{`kept away`, "deferred; cut off"},
	{`last words?`, "final attempt"},
	{`written down`, "recorded, persisted"},
	{`in good order`, "gracefully"},
	{`bearable`, "limited, rate-limited"},
	{`(?:bring|brings|brought|bringing) (?:\S+ ){0,3}up to date`, "migrate"},
	{`nobody's to`, "must not be"},
	{`none (?:any more|anymore)`, "deleted, no longer"},
	{`nobody tells`, "is not reported"},
	{`(?:loses?|lost) its worth`, "expires"},
	{`bells?`, "wake-up"},
	{`crowd(?:s|ed)?`, "counts; processes"},
	{`witness(?:es|ed)?`, "control; observer"},
	{`accus(?:e|es|ed|ing)`, "suspect"},
	{`suspicious`, "suspect"},
	{`sp(?:eak|eaks|oke) against`, "count against"},
	{`outlets?`, "destination, queue"},
	{`passages?`, "exclusive send; text"},
	{`all the same`, "anyway"},
	{`be it`, "whether"},
}

// wordPattern finds a phrase in a text that has its key, in small letters: looking for that is quick.
type wordPattern struct {
	key string
	*regexp.Regexp
}

var wordPatterns = compileWords()

func compileWords() []wordPattern {
	patterns := make([]wordPattern, len(words))
	for i, w := range words {
		pattern := `(?i)\b(?:` + strings.ReplaceAll(w.phrase, " ", `(?:\s|//|--|#)+`) + `)\b`
		patterns[i] = wordPattern{keyOf(w.phrase), regexp.MustCompile(pattern)}
	}
	return patterns
}

var (
	optionalPattern = regexp.MustCompile(`\(\?:[^)]*\)|\w\?`) // the parts of a phrase that differ
	lettersPattern  = regexp.MustCompile(`[a-z]+`)
)

// keyOf returns the longest word of what each match of the phrase contains.
func keyOf(phrase string) string {
	key := ""
	for _, word := range lettersPattern.FindAllString(optionalPattern.ReplaceAllString(phrase, "."), -1) {
		if len(word) > len(key) {
			key = word
		}
	}
	return key
}

// allowed is a place in which a phrase stays.
type allowed struct{ path, quoted string }

// wordsAllowed are those places: texts that are stored in databases and have to stay the same between versions.
var wordsAllowed = []allowed{
	{"internal/rows/rules.go", "a message with this id was on its way when this one was due"},
	{"store/pgstore/sql/scheduled.sql", "a message with this id was on its way when this one was due"},
	{"deadletter/replay.go", "letters that were put back are dead again"},
}

// Text is a piece of a file that people read: a whole page or script, or a comment or string of Go code.
type Text struct {
	Path string // relative to the module's root, with slashes
	Line int    // where it begins
	Body string
}

// wordsExtensions are those of the files that are read whole; Go files are read for their comments and strings.
var wordsExtensions = []string{".md", ".sql", ".html", ".sh", ".yaml", ".json", ".js", ".mjs", ".py", ".css"}

// LoadTexts reads what people read below dir, nested modules too. It leaves out test data, measured results, installed modules, and this
// package, which names the phrases.
func LoadTexts(dir string) ([]Text, error) {
	var texts []Text
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		relative = filepath.ToSlash(relative)
		if entry.IsDir() {
			return enterTexts(relative)
		}
		isGo := path.Ext(relative) == ".go"
		if !isGo && path.Base(relative) != "Makefile" && !slices.Contains(wordsExtensions, path.Ext(relative)) {
			return nil
		}
		body, err := os.ReadFile(name)
		switch {
		case err != nil:
			return err
		case !isGo:
			texts = append(texts, Text{Path: relative, Line: 1, Body: string(body)})
			return nil
		}
		f, err := Parse(relative, body)
		if err != nil {
			return err
		}
		texts = append(texts, TextsOf(f)...)
		return nil
	})
	return texts, err
}

func enterTexts(dir string) error {
	base := path.Base(dir)
	left := []string{"testdata", "node_modules", "vendor"}
	if slices.Contains(left, base) || dir != "." && strings.HasPrefix(base, ".") || dir == "bench/results" || dir == "internal/archtest" {
		return fs.SkipDir
	}
	return nil
}

// TextsOf returns the comments and the string literals of a Go file.
func TextsOf(f *File) []Text {
	var texts []Text
	for _, group := range f.Tree.Comments {
		var lines []string
		for _, c := range group.List {
			lines = append(lines, c.Text)
		}
		texts = append(texts, Text{f.Path, f.Fset.Position(group.Pos()).Line, strings.Join(lines, "\n")})
	}
	ast.Inspect(f.Tree, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			texts = append(texts, Text{f.Path, f.Fset.Position(literal.Pos()).Line, literal.Value})
		}
		return true
	})
	return texts
}

// CheckWords reports phrases that have a standard term, and allowances that nothing needs.
func CheckWords(texts []Text, allowances []allowed) []Finding {
	var found []Finding
	used := make([]bool, len(allowances))
	for _, text := range texts {
		lower := strings.ToLower(text.Body)
		for i, pattern := range wordPatterns {
			if !strings.Contains(lower, pattern.key) {
				continue
			}
			for _, at := range pattern.FindAllStringIndex(text.Body, -1) {
				if isAllowed(text, at[0], allowances, used) {
					continue
				}
				phrase := strings.Join(strings.Fields(text.Body[at[0]:at[1]]), " ")
				line := text.Line + strings.Count(text.Body[:at[0]], "\n")
				found = append(found, Finding{text.Path, line, fmt.Sprintf("%q; write: %s", phrase, words[i].instead)})
			}
		}
	}
	for i, a := range allowances {
		if !used[i] {
			found = append(found, Finding{a.path, 1, fmt.Sprintf("the allowance for %q is not needed", a.quoted)})
		}
	}
	return found
}

// isAllowed reports whether the phrase at the offset is part of what an allowance quotes, and notes that it is used.
func isAllowed(text Text, offset int, allowances []allowed, used []bool) bool {
	for i, a := range allowances {
		if a.path != text.Path {
			continue
		}
		for from := 0; ; {
			at := strings.Index(text.Body[from:], a.quoted)
			if at < 0 {
				break
			}
			if from+at <= offset && offset < from+at+len(a.quoted) {
				used[i] = true
				return true
			}
			from += at + len(a.quoted)
		}
	}
	return false
}
