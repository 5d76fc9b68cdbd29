package archtest

import (
	"fmt"
	"go/ast"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Doc is one page of the documentation.
type Doc struct {
	Path  string // relative to the module's root, with slashes
	Lines []string
}

// LoadDocs reads every Markdown file below dir but those in directories that the go command
// leaves out. Nested modules count here.
func LoadDocs(dir string) ([]Doc, error) {
	var docs []Doc
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		base := entry.Name()
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && (base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(base, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		docs = append(docs, Doc{Path: filepath.ToSlash(relative), Lines: strings.Split(string(text), "\n")})
		return nil
	})
	return docs, err
}

var (
	linkPattern    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingPattern = regexp.MustCompile(`^#+ (.*)$`)
	testPattern    = regexp.MustCompile(`\bTest[A-Z]\w*`)
	labelPattern   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

var acceptancePattern = regexp.MustCompile(`\bAS-\d\d\b`)

// CheckAcceptance finds tests whose comment says that they show an acceptance scenario, where the scenario's row in the table does not
// name them.
func CheckAcceptance(table Doc, files []*File) []Finding {
	rows := make(map[string]string)
	for _, line := range table.Lines {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			rows[strings.TrimSpace(cells[1])] = cells[3]
		}
	}
	var found []Finding
	for _, f := range files {
		for _, d := range f.Tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !testPattern.MatchString(fn.Name.Name) {
				continue
			}
			for _, number := range acceptancePattern.FindAllString(fn.Doc.Text(), -1) {
				if !slices.Contains(testPattern.FindAllString(rows[number], -1), fn.Name.Name) {
					found = append(found, f.finding(fn.Pos(), "%s does not name %s in the row %s", table.Path, fn.Name.Name, number))
				}
			}
		}
	}
	return found
}

// CheckLinks finds relative links that lead nowhere: to a file that exists does not know, or to
// a heading that the page does not have.
func CheckLinks(docs []Doc, exists func(path string) bool) []Finding {
	anchors := map[string]map[string]bool{}
	for _, d := range docs {
		anchors[d.Path] = d.anchors()
	}
	var found []Finding
	for _, d := range docs {
		for i, line := range d.prose() {
			for _, match := range linkPattern.FindAllStringSubmatch(line, -1) {
				if problem := checkLink(d.Path, match[1], anchors, exists); problem != "" {
					found = append(found, Finding{Path: d.Path, Line: i + 1, Text: problem})
				}
			}
		}
	}
	return found
}

func checkLink(from, link string, anchors map[string]map[string]bool, exists func(string) bool) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(link, "#")
	target := from
	if file != "" {
		target = path.Join(path.Dir(from), file)
	}
	switch page, isPage := anchors[target]; {
	case !exists(target):
		return fmt.Sprintf("%s leads to no file", link)
	case anchor != "" && isPage && !page[anchor]:
		return fmt.Sprintf("%s leads to no heading", link)
	}
	return ""
}

// prose returns the lines with those of code blocks empty.
func (d Doc) prose() []string {
	lines := make([]string, len(d.Lines))
	code := false
	for i, line := range d.Lines {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			lines[i] = line
		}
	}
	return lines
}

// anchors returns what links may name behind '#': GitHub's form of the headings.
func (d Doc) anchors() map[string]bool {
	anchors := map[string]bool{}
	seen := map[string]int{}
	for _, line := range d.prose() {
		match := headingPattern.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		anchor := anchorOf(match[1])
		if n := seen[anchor]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", anchor, n)] = true
		} else {
			anchors[anchor] = true
		}
		seen[anchor]++
	}
	return anchors
}

func anchorOf(heading string) string {
	heading = labelPattern.ReplaceAllString(heading, "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}

// CheckTestNames finds names of tests in documentation that no test begins with: a page may
// name several by what they have in common.
func CheckTestNames(docs []Doc, files []*File) []Finding {
	var tests []string
	for _, f := range files {
		for _, decl := range f.Tree.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && f.IsTest() && fn.Recv == nil {
				tests = append(tests, fn.Name.Name)
			}
		}
	}
	var found []Finding
	for _, d := range docs {
		for i, line := range d.prose() {
			for _, name := range testPattern.FindAllString(line, -1) {
				if !slices.ContainsFunc(tests, func(test string) bool { return strings.HasPrefix(test, name) }) {
					found = append(found, Finding{Path: d.Path, Line: i + 1, Text: "there is no test " + name})
				}
			}
		}
	}
	return found
}
