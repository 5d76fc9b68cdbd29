package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestInboxServiceLanguages runs the examples in other languages against the service.
func TestInboxServiceLanguages(t *testing.T) {
	t.Parallel()
	const want = `released: the card is declined
charged, with token 2
Processed
Processed
Acquired
Released
`
	for language, script := range map[string]string{"python3": "inbox-python/process_once.py", "node": "inbox-node/process_once.mjs"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(language); err != nil {
				t.Fatalf("%v; install it with: make services", err)
			}
			const token = "s3cr3t-of-the-example"
			tokens := filepath.Join(t.TempDir(), "tokens.json")
			if err := os.WriteFile(tokens, []byte(`{"tokens": [{"name": "example", "token": "`+token+`"}]}`), 0o600); err != nil {
				t.Fatal(err)
			}
			p := startInbox(t, "", "--store", "memory:", "--tokens-file", tokens)
			cmd := exec.CommandContext(t.Context(), language, filepath.Join("../../examples", script))
			cmd.Env = append(os.Environ(), "INBOX_URL="+p.url, "INBOX_TOKEN="+token)
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("it ends with %v and says\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}
