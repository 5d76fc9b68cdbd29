package archtest

import "testing"

func TestCheckBounds(t *testing.T) {
	t.Parallel()
	const found = "internal/e2e/x_test.go:3: upper bound in time on a real system; say what comes before what, or how often, and measure in bench"
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"variable of the statement", `if took := time.Since(began); took > limit { t.Errorf("%v", took) }`, []string{found}},
		{"variable before it", `took := time.Since(began); if err != nil || took >= limit { t.Fatal(took) }`, []string{found}},
		{"call", `if time.Since(began) > limit { t.Fatal() }`, []string{found}},
		{"the other way round", `if limit < time.Since(began) { e.Fatalf("late") }`, []string{found}},
		{"one of two", `if a, b := other, time.Since(began); a > 1 || b > limit { t.Error(b) }`, []string{found}},
		{"lower bound", `if took := time.Since(began); took < delay { t.Error(took) }`, nil},
		{"nothing fails", `if time.Since(sent) > pause { sent = time.Now() }`, nil},
		{"a count", `took := time.Since(began); if n > 3 { t.Error(took) }`, nil},
		{"the age of a time of the server", `if age := time.Since(at); age.Abs() > limit { t.Error(age) }`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := "package e2e; import \"time\"\nfunc f() {\n" + tt.body + "\n}\n"
			wantFindings(t, run(t, CheckBounds, source{"internal/e2e/x_test.go", text}), tt.want...)
			wantFindings(t, run(t, CheckBounds, source{"relay/x_test.go", text}))
		})
	}
}
