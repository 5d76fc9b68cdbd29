package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// step is a command of a transcript with the answer that the document shows.
type step struct{ command, want string }

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// documentedSteps returns the commands of a document, in their order.
func documentedSteps(t *testing.T, file string) (steps []step) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range consoleBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			if command, ok := strings.CutPrefix(line, "$ "); ok {
				steps = append(steps, step{command: strings.TrimSpace(command)})
			} else if len(steps) > 0 {
				steps[len(steps)-1].want += line
			}
		}
	}
	return steps
}

// TestInboxServiceTranscript runs the commands of docs/inbox-service.md against the service. Its
// answers are those of the document, but for lease ids and times.
func TestInboxServiceTranscript(t *testing.T) {
	t.Parallel()
	p := startInbox(t, "", "--store", "memory:")
	steps := documentedSteps(t, "../../docs/inbox-service.md")
	if len(steps) < 10 {
		t.Fatalf("only %d commands are documented", len(steps))
	}
	actualOf := map[string]string{"http://127.0.0.1:8080": p.url} // of what the document says
	for _, s := range steps {
		command := s.command
		for documented, actual := range actualOf {
			command = strings.ReplaceAll(command, documented, actual)
		}
		out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", s.command, err, out)
		}
		var got, want any
		if json.Unmarshal(out, &got) != nil || json.Unmarshal([]byte(s.want), &want) != nil {
			t.Fatalf("%s\nis answered with %s\nwant %s", s.command, out, s.want)
		}
		if !reflect.DeepEqual(masked(got, nil), masked(want, nil)) {
			t.Errorf("%s\nis answered with %s\nwant %s", s.command, out, s.want)
		}
		var actual, documented []string
		masked(got, &actual)
		masked(want, &documented)
		for i := range min(len(actual), len(documented)) {
			actualOf[documented[i]] = actual[i]
		}
	}
}

// masked returns a JSON value with one and the same lease id and moment in it, and appends the
// ids to a list.
func masked(v any, ids *[]string) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = masked(v[i], ids)
		}
		return list
	case map[string]any:
		fields := make(map[string]any)
		for name, value := range v {
			switch id, _ := value.(string); {
			case name == "leaseId":
				if ids != nil {
					*ids = append(*ids, id)
				}
				fields[name] = "…"
			case strings.HasSuffix(name, "Seen"), name == "expiresAt", name == "leaseUntil", name == "dueAt", name == "remainingMs":
				fields[name] = "…"
			default:
				fields[name] = masked(value, ids)
			}
		}
		return fields
	}
	return v
}
