package archtest

import (
	"strings"
	"testing"
)

func TestCheckSizes_Function(t *testing.T) {
	t.Parallel()
	function := func(lines int) string {
		return "package relay\n\nfunc f() {\n" + strings.Repeat("\tg()\n", lines-2) + "}\n"
	}
	wantFindings(t, run(t, CheckSizes, source{"relay/x.go", function(80)}))
	wantFindings(t, run(t, CheckSizes, source{"relay/x_test.go", function(81)}))
	wantFindings(t, run(t, CheckSizes, source{"relay/x.go", function(81)}),
		"relay/x.go:3: f has 81 lines, the limit is 80")
}

func TestCheckSizes_File(t *testing.T) {
	t.Parallel()
	file := func(lines int) string {
		return "package relay\n" + strings.Repeat("// text\n", lines-1)
	}
	wantFindings(t, run(t, CheckSizes, source{"relay/x.go", file(600)}))
	wantFindings(t, run(t, CheckSizes, source{"relay/x_test.go", file(601)}))
	wantFindings(t, run(t, CheckSizes, source{"relay/x.go", file(601)}),
		"relay/x.go:1: the file has 601 lines, the limit is 600")

	wantFindings(t, run(t, LongFiles, source{"relay/x.go", file(500)}))
	wantFindings(t, run(t, LongFiles, source{"relay/x.go", file(501)}),
		"relay/x.go:1: the file has 501 lines, split it before it has more than 600")
	wantFindings(t, run(t, LongFiles, source{"relay/x.go", file(601)}))
}
