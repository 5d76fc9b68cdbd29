package cli

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rewrite replaces a file of tokens as its owner would.
func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// TestDashboard_TokensChange: a token that is taken out of the file lets nobody in any more, without a
// restart, and a file that cannot be used changes nothing.
func TestDashboard_TokensChange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, file := "sqlite:"+filepath.Join(dir, "w.db"), filepath.Join(dir, "tokens")
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	const ann, bob = "0123456789abcdef-ann", "0123456789abcdef-bob"
	rewrite(t, file, "ann reader "+ann+"\nbob reader "+bob+"\n")
	ctx, stop := context.WithCancel(t.Context())
	var out lockedBuffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"dashboard", "--store", store, "--listen", "127.0.0.1:0", "--tokens-file", file}, nil, io.Discard, &out)
	}()
	defer func() { stop(); <-code }()
	url := awaitURL(t, &out)
	status := func(token string) int { got, _ := getAs(t, url, token); return got }
	if status(ann) != http.StatusOK || status(bob) != http.StatusOK {
		t.Fatal("the tokens are not known")
	}
	rewrite(t, file, "ann reader "+ann+"\n")
	waitFor(t, "the token is revoked", func() bool { return status(bob) == http.StatusUnauthorized })
	rewrite(t, file, "s3cr3t\n")
	waitFor(t, "the log tells", func() bool { return strings.Contains(out.String(), "cannot be used") })
	if status(ann) != http.StatusOK {
		t.Error("a file that cannot be used has changed who is let in")
	}
	if strings.Contains(out.String(), "s3cr3t") {
		t.Error("the log holds what stood in the file")
	}
}

// TestInbox_TokensChange: the same for the inbox service.
func TestInbox_TokensChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	const ann, bob = "0123456789abcdef-ann", "0123456789abcdef-bob"
	entry := func(name, token string) string { return "\n  - {name: " + name + ", token: " + token + "}" }
	rewrite(t, file, "tokens:"+entry("ann", ann)+entry("bob", bob))
	_, url := startInbox(t, "--store", "memory:", "--tokens-file", file)
	status := func(token string) int { got, _ := getAs(t, url+"v1/inbox/k", token); return got }
	if status(bob) != http.StatusOK {
		t.Fatal("the token is not known")
	}
	rewrite(t, file, "tokens:"+entry("ann", ann))
	waitFor(t, "the token is revoked", func() bool { return status(bob) == http.StatusUnauthorized })
	if status(ann) != http.StatusOK {
		t.Error("the other token is revoked, too")
	}
}

// TestPush_TokensChange: whose token is taken out is disconnected.
func TestPush_TokensChange(t *testing.T) {
	t.Parallel()
	const ann, bob = "0123456789abcdef-ann", "0123456789abcdef-bob"
	entry := func(name, token string) string {
		return "\n  - {name: " + name + ", topics: [orders], token: " + token + "}"
	}
	file := writeTokens(t, "tokens:"+entry("ann", ann)+entry("bob", bob))
	p := startPush(t, nil, "--to", "sse://127.0.0.1:0/events", "--tokens-file", file)
	header := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	goes := p.connect("", header(bob))
	rewrite(t, file, "tokens:"+entry("ann", ann))
	for goes.lines.Scan() { // until it is disconnected
	}
	if _, status := p.get("", header(bob)); status != http.StatusUnauthorized {
		t.Errorf("the token is revoked: status %d, want 401", status)
	}
	p.connect("", header(ann))
}

// TestDashboard_SaysWhoIsAdmin: without tokens one loud line says who may do what, and with tokens none.
func TestDashboard_SaysWhoIsAdmin(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "w.db")
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	for _, tokens := range []string{"", "ann reader 0123456789abcdef-ann"} {
		ctx, stop := context.WithCancel(t.Context())
		var out lockedBuffer
		code := make(chan int, 1)
		go func() {
			code <- run(ctx, []string{"dashboard", "--store", store, "--listen", "127.0.0.1:0"}, []string{"WAYBILL_DASHBOARD_TOKENS=" + tokens}, io.Discard, &out)
		}()
		awaitURL(t, &out)
		stop()
		<-code
		if n := strings.Count(out.String(), "everybody on this machine is admin"); (n == 1) != (tokens == "") {
			t.Errorf("with tokens %q it says: %s", tokens, out.String())
		}
	}
}
