package archtest

import "testing"

func TestCheckPatience(t *testing.T) {
	t.Parallel()
	finding := func(d string) []string {
		return []string{"internal/cli/x_test.go:3: waits for " + d + " at most; wait with patience, a constant of five minutes"}
	}
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"context", `ctx, cancel := context.WithTimeout(t.Context(), time.Minute)`, finding("1m0s")},
		{"some seconds", `ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)`, finding("20s")},
		{"function", `within(t, 3*time.Minute, "it ends", done)`, finding("3m0s")},
		{"case of a select", `select { case <-done: case <-time.After(1000 * time.Millisecond): t.Fatal("late") }`, finding("1s")},
		{"timer", `timeout := time.After(time.Minute)`, finding("1m0s")},
		{"loop", `for end := time.Now().Add(4 * time.Minute); time.Now().Before(end); {}`, finding("4m0s")},
		{"constant", `const kafkaPatience = time.Minute`, finding("1m0s")},
		{"enough", `const patience = 5 * time.Minute; for limit := time.After(patience); ; {}`, nil},
		{"a deadline that passes", `ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)`, nil},
		{"a pause", `select { case <-done: case <-time.After(time.Second): more() }; <-time.After(time.Second)`, nil},
		{"the time of a message", `m.DeliverAt = time.Now().Add(time.Minute)`, nil},
		{"another After", `next := calendar.After(time.Minute)`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := "package cli; import \"time\"\nfunc f() {\n" + tt.body + "\n}\n"
			wantFindings(t, run(t, CheckPatience, source{"internal/cli/x_test.go", text}), tt.want...)
			wantFindings(t, run(t, CheckPatience, source{"internal/cli/x.go", text}))
			bubble := "package cli; import (\"testing/synctest\"; \"time\")\nfunc f() {\n" + tt.body + "\n}\n"
			wantFindings(t, run(t, CheckPatience, source{"internal/cli/x_test.go", bubble}))
		})
	}
}
