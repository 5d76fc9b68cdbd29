package archtest

import (
	"slices"
	"strings"
)

// group is a level of the import rule.
type group string

const (
	root     group = "root"     // the vocabulary
	leaf     group = "leaf"     // internal helpers that know the root only
	role     group = "role"     // outbox, relay, inbox, consumer, deadletter, janitor, schedule
	compound group = "compound" // saga, request, service
	shared   group = "shared"   // what several adapters have in common
	adapter  group = "adapter"  // stores, brokers, and what else stands on the roles
	suite    group = "suite"    // the suites that adapters are tested with
	settings group = "settings" // internal/config
	cli      group = "cli"      // internal/cli
	tool     group = "tool"     // servers and more that only tests use
	harness  group = "harness"  // tests that need drivers and servers
	checks   group = "checks"   // this package
	command  group = "command"  // cmd, scripts
	example  group = "example"  // programs as users write them
)

// groups says which group a package belongs to, by its unit. A pattern that ends with "/*"
// stands for every unit below; the first that matches counts.
var groups = []struct {
	pattern string
	group   group
}{
	{"", root},
	{"observe", root},
	{"inspect", root},
	{"outbox", role},
	{"contract", role},
	{"relay", role},
	{"inbox", role},
	{"consumer", role},
	{"deadletter", role},
	{"janitor", role},
	{"schedule", role},
	{"guarantee", role},
	{"traffic", role},
	{"saga", compound},
	{"request", compound},
	{"service", compound},
	{"store/storetest", suite},
	{"store/*", adapter},
	{"broker", compound},
	{"broker/brokertest", suite},
	{"broker/*", adapter},
	{"compat", adapter},
	{"inboxhttp", adapter},
	{"idempotency", adapter},
	{"discovery", adapter},
	{"dashboard", adapter},
	{"push", adapter},
	{"observe/*", adapter},
	{"waybilltest", adapter},
	{"internal/archtest", checks},
	{"internal/cli", cli},
	{"internal/config", settings},
	{"internal/conformance", harness},
	{"internal/e2e", harness},
	{"internal/browser", harness},
	{"internal/interleave", harness},
	{"internal/sim", harness},
	{"internal/soak", harness},
	{"internal/sagatest", harness},
	{"internal/brokerkit", shared},
	{"internal/ops", shared},
	{"internal/rows", shared},
	{"internal/settleplan", shared},
	{"internal/sqlstore", shared},
	{"internal/testtools", tool},
	{"internal/*", leaf},
	{"cmd/*", command},
	{"scripts", command},
	{"examples/*", example},
}

// mayImport is the import rule: what packages of each group may import of this module,
// in addition to what belongs to the same unit.
var mayImport = map[group][]group{
	root:     {},
	leaf:     {root},
	role:     {root, leaf},
	compound: {root, leaf, role},
	shared:   {root, leaf, role, compound},
	adapter:  {root, leaf, role, compound, shared},
	suite:    {root, role, compound},
	settings: {root, leaf},
	cli:      {root, leaf, role, compound, shared, adapter, settings},
	tool:     {root},
	harness:  {root, leaf, role, compound, adapter, suite, settings, cli, tool, harness},
	checks:   {},
	command:  {cli},
	example:  {root, role, compound, adapter},
}

// siblings are imports that are allowed in addition, most of them between packages of one group.
var siblings = map[string][]string{
	"observe":              {""},
	"inspect":              {""},
	"contract":             {"inbox"},
	"consumer":             {"contract", "inbox"},
	"relay":                {"contract"},
	"deadletter":           {"outbox"},
	"janitor":              {"contract", "inbox"},
	"schedule":             {"outbox", "deadletter"}, // what is scheduled is completed and checked as what is enqueued; what operators do to it is audited
	"internal/rows":        {"internal/settleplan"},
	"examples/filestore":   {"internal/lanehash", "internal/rows", "internal/wakeup"},
	"internal/sqlstore":    {"internal/rows", "internal/settleplan"},
	"internal/conformance": {"examples/filestore"},
	"internal/relaycore":   {"internal/backoff"},
	"internal/recording":   {"internal/loop", "internal/relaycore"},
	"waybilltest":          {"broker/membroker", "store/memstore"}, // a whole system in memory
}

// nested are the directories whose children are units of their own.
var nested = []string{"store", "broker", "observe", "internal", "cmd", "examples"}

// unitOf returns what a package is part of as far as the import rule goes: the first
// element of its directory, or the first two for the nested ones.
func unitOf(dir string) string {
	parts := strings.Split(dir, "/")
	depth := 1
	if slices.Contains(nested, parts[0]) {
		depth = 2
	}
	return strings.Join(parts[:min(depth, len(parts))], "/")
}

// groupOf returns the group of a unit, or "" for one that has no place in the rule.
func groupOf(unit string) group {
	for _, g := range groups {
		if matches(g.pattern, unit) {
			return g.group
		}
	}
	return ""
}

// importable reports whether users can import a package of the group.
func importable(g group) bool {
	return g == root || g == role || g == compound || g == adapter || g == suite
}

// CheckImports reports imports that break the import rule, the table of modules, or, in the
// tests of importable packages, that the package itself does not have.
func CheckImports(files []*File) []Finding {
	own := importsOf(files)
	var found []Finding
	for _, f := range files {
		g := groupOf(unitOf(f.Dir()))
		if g == "" {
			found = append(found, f.finding(f.Tree.Package, "package %s has no place in the import rule; add it to the table groups", f.Dir()))
			continue
		}
		for _, spec := range f.Tree.Imports {
			imported := importPath(spec)
			text := checkImport(f, g, imported)
			if text == "" && f.IsTest() && importable(g) && !own[f.Dir()][imported] {
				text = checkTestImport(f, g, imported)
			}
			if text != "" {
				found = append(found, f.finding(spec.Pos(), "%s", text))
			}
		}
	}
	return found
}

// importsOf returns, for each directory, what its files other than tests import.
func importsOf(files []*File) map[string]map[string]bool {
	own := make(map[string]map[string]bool)
	for _, f := range files {
		if f.IsTest() {
			continue
		}
		if own[f.Dir()] == nil {
			own[f.Dir()] = make(map[string]bool)
		}
		for _, spec := range f.Tree.Imports {
			own[f.Dir()][importPath(spec)] = true
		}
	}
	return own
}

// checkImport returns what is wrong with an import by a package of group g, or "".
func checkImport(f *File, g group, imported string) string {
	switch {
	case isStandard(imported):
		return checkTesting(f, g, imported)
	case imported == Module || strings.HasPrefix(imported, Module+"/"):
		dir := strings.TrimPrefix(strings.TrimPrefix(imported, Module), "/")
		return checkOwn(f, g, dir)
	default:
		return checkModule(unitOf(f.Dir()), imported)
	}
}

// checkOwn checks an import of the package in dir, which belongs to this module.
func checkOwn(f *File, g group, dir string) string {
	from, to := unitOf(f.Dir()), unitOf(dir)
	target := groupOf(to)
	switch {
	case from == to,
		slices.Contains(mayImport[g], target),
		slices.Contains(siblings[from], to),
		f.IsTest() && (g == adapter && target == suite || g == cli && target == tool):
		return ""
	}
	return shown(from) + " (" + string(g) + ") must not import " + shown(to) + " (" + string(target) + ")"
}

// checkTesting keeps package testing out of what users link into their programs.
func checkTesting(f *File, g group, imported string) string {
	if imported != "testing" && !strings.HasPrefix(imported, "testing/") {
		return ""
	}
	if f.IsTest() || g == suite || g == tool || g == harness || unitOf(f.Dir()) == "waybilltest" {
		return ""
	}
	return "only tests and suites may import " + imported
}

// checkTestImport checks an import that only the tests of an importable package have.
func checkTestImport(f *File, g group, imported string) string {
	self := strings.TrimSuffix(Module+"/"+f.Dir(), "/")
	isSuite := g == adapter && (imported == Module+"/store/storetest" || imported == Module+"/broker/brokertest")
	if isStandard(imported) || imported == self || isSuite {
		return ""
	}
	return "the tests of " + shown(f.Dir()) + " import " + imported + ", which the package itself does not; move them to internal/conformance or internal/e2e"
}

// isStandard reports whether an import path belongs to the standard library, whose first
// element has no dot.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

func shown(unit string) string {
	if unit == "" {
		return "the root package"
	}
	return unit
}
