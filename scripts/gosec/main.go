// The command gosec checks the packages that users link, of the modules in the given directories, for
// weaknesses, by the rules of github.com/securego/gosec. Every rule applies everywhere except for the exceptions
// below, each with its reason; one that is no longer needed is an error.
//
// It is a separate program because the original command links the clients of several language models, which take
// seven minutes of CPU to compile.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/securego/gosec/v2"
	"github.com/securego/gosec/v2/analyzers"
	"github.com/securego/gosec/v2/issue"
	"github.com/securego/gosec/v2/rules"
)

// unlinked are directories that no user links: servers and tools for tests, benchmarks, examples, and separate
// modules, which are given separately.
var unlinked = regexp.MustCompile(`(^|/)(testdata|node_modules|bench|examples|scripts|internal/(archtest|browser|testtools|interleave|sim|soak|conformance|e2e|sagatest))(/|$)`)

// exception is where a rule does not hold, by the beginning of the path.
type exception struct{ rule, path, reason string }

var exceptions = []exception{
	{"G104", "", "staticcheck and readers look at errors; those left are of Close, after something else has failed"},

	{"G101", "internal/redact/", "a pattern for the names of secrets, and none itself"},
	{"G101", "internal/config/names.go", "the name of an environment variable"},

	{"G115", "broker/kafkabroker/", "lanes, partitions and sizes, which Config limits; positions as their bits"},
	{"G115", "broker/natsbroker/lag.go", "a number of messages in a stream"},
	{"G103", "internal/recording/graph.go", "fields of the core, which are not exported, are read back where they were written"},
	{"G115", "internal/recording/", "numbers as their bits; sizes that are read are checked"},
	{"G115", "internal/cli/demo/broker.go", "a number of messages in a stream"},
	{"G115", "internal/cloudevents/percent.go", "two hexadecimal digits"},
	{"G115", "store/pgstore/settle.go", "lanes, from 0 to 63"},
	{"G115", "store/storetest/", "small numbers of the suite"},

	{"G124", "dashboard/session.go", "Secure is set where the browser speaks TLS"},
	{"G203", "dashboard/", "queries that url.Values.Encode has escaped"},
	{"G204", "internal/cli/demo/process.go", "the program's own file"},

	{"G304", "internal/config/file.go", "a file that whoever runs the program names"},
	{"G304", "internal/recording/file.go", "a file that whoever runs the program names"},
	{"G304", "internal/cli/", "a file that whoever runs the program names"},
	{"G304", "internal/otlp/settings.go", "a file that whoever runs the program names"},

	{"G404", "internal/backoff/", "jitter"},
	{"G404", "internal/brokerkit/backoff.go", "jitter"},
	{"G404", "broker/rabbitbroker/broker.go", "which node is the first"},
	{"G404", "consumer/", "jitter"},
	{"G404", "internal/otlp/exporter.go", "jitter"},
	{"G404", "janitor/run.go", "jitter"},
	{"G404", "outbox/transact.go", "jitter"},
	{"G404", "store/mongostore/transaction.go", "jitter"},
	{"G404", "relay/", "a name for this relay, and the seed of its jitter"},
	{"G404", "schedule/state.go", "a number that tells versions apart"},
	{"G404", "traffic/recorder.go", "jitter"},
	{"G404", "store/storetest/", "the seed of a test, which is printed"},

	{"G602", "store/redisstore/", "slices of one length"},
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: gosec directory...")
		os.Exit(2)
	}
	found, err := check(os.Args[1:])
	for _, line := range found {
		fmt.Println(line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || len(found) > 0 {
		os.Exit(1)
	}
}

// check returns the issues in the packages below the directories. The paths above are relative to the first.
func check(roots []string) (found []string, err error) {
	var packages []string
	for _, root := range roots {
		below, err := packagesOf(root)
		if err != nil {
			return nil, err
		}
		packages = append(packages, below...)
	}
	a := gosec.NewAnalyzer(gosec.Config{gosec.Globals: map[gosec.GlobalOption]string{
		gosec.NoSecRequireRules: "true", gosec.NoSecRequireJustification: "true",
	}}, false, true, false, 2, log.New(io.Discard, "", 0))
	a.LoadRules(rules.Generate(false).RulesInfo())
	a.LoadAnalyzers(analyzers.Generate(false).AnalyzersInfo())
	if err := a.Process(nil, packages...); err != nil {
		return nil, err
	}
	issues, _, failed := a.Report()
	for name, list := range failed {
		found = append(found, fmt.Sprintf("%s: %v", name, list))
	}
	return append(found, remaining(roots[0], issues)...), nil
}

// packagesOf returns the directories of packages below root that users link.
func packagesOf(root string) ([]string, error) {
	all, err := gosec.PackagePaths(root+"/...", nil)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(dir string) bool {
		relative, err := filepath.Rel(root, dir)
		return err != nil || unlinked.MatchString(relative) || gosec.FindModuleRoot(dir) != gosec.FindModuleRoot(root)
	}), nil
}

// remaining returns the issues that no exception allows, and the exceptions that allow none.
func remaining(root string, issues []*issue.Issue) (found []string) {
	used := make([]bool, len(exceptions))
	for _, i := range issues {
		path, err := filepath.Rel(root, i.File)
		if err != nil {
			path = i.File
		}
		by := slices.IndexFunc(exceptions, func(e exception) bool { return e.rule == i.RuleID && strings.HasPrefix(path, e.path) })
		if by < 0 {
			found = append(found, fmt.Sprintf("%s:%s: %s: %s", path, i.Line, i.RuleID, i.What))
			continue
		}
		used[by] = true
	}
	for i, e := range exceptions {
		if !used[i] {
			found = append(found, fmt.Sprintf("the exception of %s for %q is no longer needed", e.rule, e.path))
		}
	}
	return found
}
