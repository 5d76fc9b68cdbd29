package archtest

import "testing"

func TestCheckComments(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       []string // findings without the path
	}{
		{"function without", "func Do() {}", []string{"3: Do has no doc comment"}},
		{"function with another's", "// Does it.\nfunc Do() {}", []string{"4: the doc comment of Do does not begin with Do"}},
		{"function with a longer name's", "// Doing is it.\nfunc Do() {}", []string{"4: the doc comment of Do does not begin with Do"}},
		{"function with only a directive", "//go:noinline\nfunc Do() {}", []string{"4: Do has no doc comment"}},
		{"function", "// Do does it.\nfunc Do() {}", nil},
		{"unexported function", "func do() {}", nil},

		{"method without", "// T is.\ntype T struct{}\nfunc (T) Do() {}", []string{"5: T.Do has no doc comment"}},
		{"method of a generic type", "// T is.\ntype T[A, B any] struct{}\nfunc (*T[A, B]) Do() {}", []string{"5: T.Do has no doc comment"}},
		{"method with one meaning", "// T is.\ntype T struct{}\nfunc (T) String() string { return \"\" }", nil},
		{"method of an unexported type", "type t struct{}\nfunc (t) Do() {}", nil},

		{"type without", "type T int", []string{"3: T has no doc comment"}},
		{"type with another's", "// It is.\ntype T int", []string{"4: the doc comment of T does not begin with T"}},
		{"type with an article", "// A T is.\ntype T int", nil},
		{"type in a group", "// Types.\ntype (\n\tT int\n)", []string{"5: T has no doc comment"}},
		{"alias without", "type T = int", []string{"3: T has no doc comment"}},

		{"constant without", "const C = 1", []string{"3: C has no doc comment"}},
		{"constant with another's", "// The one.\nconst C = 1", []string{"4: the doc comment of C does not begin with C"}},
		{"constant in a group without", "const (\n\tC = 1\n\td = 2\n)", []string{"4: C has no doc comment"}},
		{"constant in a group, behind", "const (\n\tC = 1 // one\n)", nil},
		{"constant in a group with a comment", "// The numbers.\nconst (\n\tC = 1\n\tD = 2\n)", nil},
		{"constant in a group with another's", "const (\n\t// One.\n\tC = 1\n)", []string{"5: the doc comment of C does not begin with C"}},
		{"variable without", "var V = 1", []string{"3: V has no doc comment"}},
		{"guard", "var _ = 1", nil},

		{"field of a configuration without", "// Config is.\ntype Config struct {\n\tA int\n\tb int\n}", []string{"5: Config.A has no doc comment"}},
		{"field of a configuration with another's", "// Config is.\ntype Config struct {\n\t// It.\n\tA int\n}", []string{"6: the doc comment of Config.A does not begin with A"}},
		{"field of a configuration", "// Config is.\ntype Config struct {\n\t// A is.\n\tA int\n\tB int // is\n}", nil},
		{"field of another type", "// T is.\ntype T struct {\n\tA int\n}", nil},
		{"method of an interface without", "// I is.\ntype I interface {\n\tDo()\n}", []string{"5: I.Do has no doc comment"}},
		{"embedded interface", "// I is.\ntype I interface {\n\terror\n}", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, CheckComments, source{"relay/x.go", "// Package relay moves.\npackage relay\n" + tt.text + "\n"})
			for i := range tt.want {
				tt.want[i] = "relay/x.go:" + tt.want[i]
			}
			wantFindings(t, got, tt.want...)
		})
	}
}

func TestCheckComments_NotForUsers(t *testing.T) {
	t.Parallel()
	const text = "package p\nfunc Do() {}\n"
	wantFindings(t, run(t, CheckComments,
		source{"relay/relay.go", "// Package p moves.\npackage p\n"},
		source{"relay/relay_test.go", text},
		source{"internal/loop/loop.go", "// Package p loops.\n" + text},
	))
}

func TestCheckComments_Package(t *testing.T) {
	t.Parallel()
	const (
		without = "package relay\n"
		with    = "// Package relay moves.\n" + without
		finding = "relay/a.go:1: relay has no package comment that begins with its name"
	)
	tests := []struct {
		name  string
		files []source
		want  []string
	}{
		{"in one of two", []source{{"relay/a.go", without}, {"relay/b.go", with}}, nil},
		{"in none", []source{{"relay/a.go", without}, {"relay/b.go", without}}, []string{finding}},
		{"with another name", []source{{"relay/a.go", "// Package relays moves.\npackage relay\n"}}, []string{"relay/a.go:2: relay has no package comment that begins with its name"}},
		{"apart from the clause", []source{{"relay/a.go", "// Package relay moves.\n\npackage relay\n"}}, []string{"relay/a.go:3: relay has no package comment that begins with its name"}},
		{"in a test only", []source{{"relay/a_test.go", with}, {"relay/a.go", without}}, []string{finding}},
		{"in a package of tests", []source{{"internal/e2e/a_test.go", "// Package e2e tells.\npackage e2e_test\n"}}, nil},
		{"none in a package of tests", []source{{"internal/e2e/a_test.go", "package e2e\n"}}, []string{"internal/e2e/a_test.go:1: internal/e2e has no package comment that begins with its name"}},
		{"in a command", []source{{"cmd/waybill/main.go", "// The command waybill relays.\npackage main\n"}}, nil},
		{"none in a command", []source{{"cmd/waybill/main.go", "package main\n"}}, []string{"cmd/waybill/main.go:1: cmd/waybill has no package comment that begins with its name"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFindings(t, run(t, CheckComments, tt.files...), tt.want...)
		})
	}
}
