package archtest

import (
	"slices"
	"strings"
)

// linked says what the programs that people run first may link, so that they compile quickly:
// the adapters of this module, and the modules of others that its packages import.
var linked = []struct {
	program  string
	adapters []string
	modules  []string
}{
	{"cmd/demo", []string{"store/sqlitestore", "broker/natsbroker"}, []string{
		"github.com/google/uuid", "github.com/robfig/cron/v3",
		"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "modernc.org/sqlite",
	}},
	{"examples/orders", []string{"store/memstore", "broker/membroker"}, []string{
		"github.com/google/uuid", "github.com/robfig/cron/v3",
	}},
}

// CheckLinked reports imports by which a program of the table links more than it may. It
// follows the imports within this module, build tags apart.
func CheckLinked(files []*File) []Finding {
	byDir := make(map[string][]*File)
	for _, f := range files {
		if !f.IsTest() {
			byDir[f.Dir()] = append(byDir[f.Dir()], f)
		}
	}
	var found []Finding
	for _, p := range linked {
		dirs := []string{p.program}
		for i := 0; i < len(dirs); i++ {
			for _, f := range byDir[dirs[i]] {
				for _, spec := range f.Tree.Imports {
					imported := importPath(spec)
					dir, own := ownDir(imported)
					switch {
					case !mayLink(imported, p.adapters, p.modules):
						found = append(found, f.finding(spec.Pos(), "%s must not link %s", p.program, imported))
					case own && !slices.Contains(dirs, dir):
						dirs = append(dirs, dir)
					}
				}
			}
		}
	}
	return found
}

// ownDir returns the directory of a package of this module, "" for the root.
func ownDir(imported string) (dir string, own bool) {
	if imported == Module {
		return "", true
	}
	return strings.CutPrefix(imported, Module+"/")
}

// mayLink reports whether a program with these adapters and modules may link a package.
func mayLink(imported string, adapters, modules []string) bool {
	if isStandard(imported) {
		return true
	}
	if dir, own := ownDir(imported); own {
		return groupOf(unitOf(dir)) != adapter || slices.Contains(adapters, dir)
	}
	return slices.ContainsFunc(modules, func(m string) bool { return imported == m || strings.HasPrefix(imported, m+"/") })
}
