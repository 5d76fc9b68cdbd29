package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// Ctrl-C ends the command, and not the replay: it says so, and the replay runs on.
func TestReplay_Interrupted(t *testing.T) {
	t.Parallel()
	m := incident(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	p := &program{
		env: []string{"WAYBILL_STORE=sqlite:shop.db", "WAYBILL_BY=ann@desk"}, stdin: strings.NewReader(""), stdout: &out, stderr: &out,
		open: func(context.Context, opener.StoreConfig) (opener.Store, error) { return m, nil },
	}
	done := make(chan int, 1)
	go func() { done <- p.run(ctx, strings.Fields("dead replay --consumer search --rate 0.01 --yes")) }() // the second one is 100 s away
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !oneIsBack(t, m) {
		select {
		case <-tick.C:
		case code := <-done:
			t.Fatalf("exit code %d before anything was requeued: %s", code, out.String())
		}
	}
	cancel()
	if code := <-done; code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if text := out.String(); !strings.Contains(text, "Replay 1 goes on in any relay") || !strings.Contains(text, "waybill: interrupted") {
		t.Errorf("the screen shows\n%s", text)
	}
	if r, err := m.Replay(t.Context(), 1); err != nil || r.State != deadletter.Running {
		t.Errorf("replay = %+v, %v, want it running", r, err)
	}
}

func oneIsBack(t *testing.T, m *memory) bool {
	t.Helper()
	list, err := m.Replays(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return len(list) == 1 && list[0].Requeued == 1
}

// What comes from anywhere can't steer a terminal or break a table.
func TestShown_IsClean(t *testing.T) {
	t.Parallel()
	hostile := "a\x1b[2Jb\tc\nd\u202ee\xff\u009b"
	for name, text := range map[string]string{"cell": clean(hostile), "payload": shownPayload([]byte("x\x1b[2J\r\u202e")), "JSON": shownPayload([]byte("{\"a\":\"\u202e\u007f\"}"))} {
		if strings.ContainsAny(text, "\x1b\r\u202e\u009b\u007f") {
			t.Errorf("%s is %q", name, text)
		}
	}
	if got := shownPayload([]byte{0xff, 0x1b}); !strings.HasPrefix(got, "00000000  ff 1b") {
		t.Errorf("a payload that is no text is %q, want hexadecimal", got)
	}
	if got := trend([]int{0, 1, 50, 100}); got != "·▁▄█" {
		t.Errorf("trend = %s", got)
	}
}
