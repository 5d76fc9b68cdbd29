package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/cli/opener"
)

// The stories are texts in which a person types commands at a prompt, one after the other, on
// the store of [incident]. What they show is compared to the letter; "…" stands for anything
// within a line. The first one is the documentation itself.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"../../docs/cli.md", "testdata/screens.md", "testdata/json.md", "testdata/errors.md"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			m := incident(t)
			for _, s := range steps(string(text)) {
				s.check(t, m)
			}
		})
	}
}

// step is a command line and what is shown after it.
type step struct {
	command string
	code    int
	answer  string // that a person types
	want    string
}

var (
	blockPattern  = regexp.MustCompile("(?s)```console\n(.*?)```")
	codePattern   = regexp.MustCompile(`\s+# exit code (\d)$`)
	answerPattern = regexp.MustCompile(`\[y/N\] (\w+)\n`)
)

// steps returns the commands of all blocks marked as console.
func steps(text string) []step {
	var list []step
	for _, block := range blockPattern.FindAllStringSubmatch(text, -1) {
		for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, want, _ := strings.Cut(part, "\n")
			s := step{command: command, want: want}
			if want != "" && !strings.HasSuffix(want, "\n") {
				s.want += "\n"
			}
			if found := codePattern.FindStringSubmatch(command); found != nil {
				s.command = strings.TrimSuffix(command, found[0])
				_, _ = fmt.Sscan(found[1], &s.code) // the pattern makes sure that it is a digit
			}
			if found := answerPattern.FindStringSubmatch(want); found != nil {
				s.answer = found[1] + "\n"
			}
			list = append(list, s)
		}
	}
	return list
}

func (s step) check(t *testing.T, m *memory) {
	t.Helper()
	got, code := m.typed(t, s.command, s.answer)
	if code != s.code {
		t.Errorf("%s: exit code %d, want %d", s.command, code, s.code)
	}
	matchText(t, "$ "+s.command+": the screen", got, s.want)
}

// typed runs a command line and returns what the screen shows, the answer included.
func (m *memory) typed(t *testing.T, command, answer string) (screen string, code int) {
	t.Helper()
	line := words(command)
	if len(line) == 0 || line[0] != "waybill" {
		t.Fatalf("%q is no command of ours", command)
	}
	var out bytes.Buffer
	p := &program{
		env:   []string{"WAYBILL_STORE=sqlite:shop.db", "WAYBILL_BY=ann@desk"},
		stdin: io.TeeReader(strings.NewReader(answer), &out), stdout: &out, stderr: &out, asks: answer != "", now: func() time.Time { return m.now },
		open: func(context.Context, opener.StoreConfig) (opener.Store, error) { return m, nil },
	}
	code = p.run(t.Context(), line[1:])
	return out.String(), code
}

// words splits a command line as a shell does, but knows quotes around whole words only.
func words(line string) []string {
	var list []string
	for _, found := range regexp.MustCompile(`"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		list = append(list, found[1]+found[2])
	}
	return list
}
