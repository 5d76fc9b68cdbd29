package archtest

import (
	"slices"
	"testing"
)

func TestCheckLinked(t *testing.T) {
	t.Parallel()
	const (
		pgx    = "github.com/jackc/pgx/v5"
		sqlite = "modernc.org/sqlite"
	)
	tests := []struct {
		name    string
		sources []source
		want    []string
	}{
		{"what it may", []source{
			{"cmd/demo/main.go", imports(Module + "/internal/cli/demo")},
			{"internal/cli/demo/demo.go", imports("fmt", Module, Module+"/store/sqlitestore", sqlite)},
		}, nil},
		{"a module of others", []source{{"cmd/demo/main.go", imports(pgx + "/stdlib")}},
			[]string{"cmd/demo/main.go:2: cmd/demo must not link " + pgx + "/stdlib"}},
		{"an adapter, two packages away", []source{
			{"cmd/demo/main.go", imports(Module + "/internal/cli/demo")},
			{"internal/cli/demo/demo.go", imports(Module + "/service")},
			{"service/service.go", imports(Module + "/store/pgstore")},
		}, []string{"service/service.go:2: cmd/demo must not link " + Module + "/store/pgstore"}},
		{"the root package's imports", []source{
			{"examples/orders/main.go", imports(Module)},
			{"message.go", imports(sqlite)},
		}, []string{"message.go:2: examples/orders must not link " + sqlite}},
		{"an observer", []source{{"examples/orders/main.go", imports(Module + "/observe/otelobserve")}},
			[]string{"examples/orders/main.go:2: examples/orders must not link " + Module + "/observe/otelobserve"}},
		{"tests and other programs", []source{
			{"cmd/demo/main_test.go", imports(pgx)},
			{"cmd/waybill/main.go", imports(pgx)},
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFindings(t, run(t, CheckLinked, tt.sources...), tt.want...)
		})
	}
}

// TestLinked_Programs: a program of the table that does not exist would be checked for nothing.
func TestLinked_Programs(t *testing.T) {
	t.Parallel()
	files := loadModule(t)
	for _, p := range linked {
		if !slices.ContainsFunc(files, func(f *File) bool { return f.Dir() == p.program && !f.IsTest() }) {
			t.Errorf("there is no program %s", p.program)
		}
	}
}
