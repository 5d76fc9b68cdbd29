package archtest

import "testing"

func TestCheckCode_Tests(t *testing.T) {
	t.Parallel()
	const (
		sleep = "relay/x_test.go:3: time.Sleep in a test; wait for the event, or use testing/synctest"
		short = "relay/x_test.go:3: testing.Short in a test; every run runs everything"
	)
	skip := func(name string) string {
		return "relay/x_test.go:3: " + name + " in a test; what can't run must fail and say how it could"
	}
	tests := []struct {
		name, imports, body string
		want                []string
	}{
		{"sleep", `import "time"`, "time.Sleep(1)", []string{sleep}},
		{"sleep under another name", `import clock "time"`, "clock.Sleep(1)", []string{sleep}},
		{"sleep in a function", `import "time"`, "func() { time.Sleep(1) }()", []string{sleep}},
		{"sleep in a bubble", `import ("time"; "testing/synctest")`, "synctest.Test(t, func(t *testing.T) { time.Sleep(1) })", nil},
		{"sleep behind a bubble", `import ("time"; "testing/synctest")`, "synctest.Test(t, f); time.Sleep(1)", []string{sleep}},
		{"skip in a bubble", `import "testing/synctest"`, "synctest.Test(t, func(t *testing.T) { t.Skip() })", []string{skip("Skip")}},
		{"another's sleep", `import "example.org/clock"`, "clock.Sleep(1)", nil},
		{"skip", "", "t.Skip()", []string{skip("Skip")}},
		{"skip with a reason", "", `tb.Skipf("no server")`, []string{skip("Skipf")}},
		{"skip in a bundle", "", "b.t.SkipNow()", []string{skip("SkipNow")}},
		{"short", `import "testing"`, "_ = testing.Short()", []string{short}},
		{"nothing of it", "", `t.Fatal("Skip")`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := "package relay; " + tt.imports + "\nfunc f() {\n" + tt.body + "\n}\n"
			wantFindings(t, run(t, CheckCode, source{"relay/x_test.go", text}), tt.want...)
			wantFindings(t, run(t, CheckCode, source{"relay/x.go", text}))
		})
	}
}

func TestCheckCode_Init(t *testing.T) {
	t.Parallel()
	const text = "package relay\ntype T int\nfunc (T) init() {}\nfunc init() {}\n"
	wantFindings(t, run(t, CheckCode, source{"relay/x.go", text}),
		"relay/x.go:4: init function; do it where it is needed")
	wantFindings(t, run(t, CheckCode, source{"relay/x_test.go", text}),
		"relay/x_test.go:4: init function; do it where it is needed")
}

func TestCheckCode_Panic(t *testing.T) {
	t.Parallel()
	finding := func(line string) string {
		return "relay/x.go:" + line + ": panic in a function whose comment does not say when it panics; return an error"
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"in a function", "func f() { panic(1) }", []string{finding("2")}},
		{"in a literal in it", "func f() {\n\tg := func() { panic(1) }\n\tg()\n}", []string{finding("3")}},
		{"in a variable", "var f = func() { panic(1) }", []string{finding("2")}},
		{"beside a literal that recovers", "func f() {\n\tdefer func() { _ = recover() }()\n\tpanic(1)\n}", []string{finding("4")}},
		{"passed on", "func f() {\n\tdefer func() {\n\t\tif p := recover(); p != nil {\n\t\t\tpanic(p)\n\t\t}\n\t}()\n}", nil},
		{"announced", "// f panics if it is called.\nfunc f() { panic(1) }", nil},
		{"unreachable", "func f() { panic(\"unreachable\") }", nil},
		{"a method of that name", "func f() { x.panic(1) }", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := "package relay\n" + tt.text + "\n"
			wantFindings(t, run(t, CheckCode, source{"relay/x.go", text}), tt.want...)
			wantFindings(t, run(t, CheckCode, source{"relay/x_test.go", text}))
		})
	}
}

func TestCheckCode_Servers(t *testing.T) {
	t.Parallel()
	const imports = "package relay\n\nimport web \"net/http\"\n\n"
	finding := func(name string) string {
		return "relay/x.go:5: http." + name + " has no limits; use internal/httpserve"
	}
	tests := []struct {
		name, text string
		want       []string
	}{
		{"a server", "var s = &web.Server{Handler: nil}", []string{finding("Server")}},
		{"served at once", "func f() { web.ListenAndServe(\"\", nil) }", []string{finding("ListenAndServe")}},
		{"on a listener", "func f() { web.Serve(nil, nil) }", []string{finding("Serve")}},
		{"a server of somebody else", "func f(s *web.Server) { s.Close() }", nil},
		{"a handler", "var h = web.NotFoundHandler()", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := imports + tt.text + "\n"
			wantFindings(t, run(t, CheckCode, source{"relay/x.go", text}), tt.want...)
			wantFindings(t, run(t, CheckCode, source{"relay/x_test.go", text}))
			wantFindings(t, run(t, CheckCode, source{"internal/httpserve/x.go", text}))
		})
	}
}
