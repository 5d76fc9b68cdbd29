package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeadEdit_Payload: the payload as people type it, and from a file.
func TestDeadEdit_Payload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(file, []byte(`{"from":"file"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, want string }{
		{`--payload={"customer":42}`, `{"customer":42}`}, {"--payload=@" + file, `{"from":"file"}`}, {"--payload-file=" + file, `{"from":"file"}`}, {"--payload=", ""},
	} {
		var e letterEdit
		cmd := (&program{}).deadEditCommand()
		cmd.ResetFlags()
		e.addTo(cmd)
		if err := cmd.ParseFlags([]string{tt.flag}); err != nil {
			t.Fatal(err)
		}
		if err := e.complete(cmd, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		if e.edit.Payload == nil || string(*e.edit.Payload) != tt.want {
			t.Errorf("%s: payload is not %q", tt.flag, tt.want)
		}
	}
}
