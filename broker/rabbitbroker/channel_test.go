package rabbitbroker

import (
	"net"
	"testing"
	"time"
)

// TestChannel_Heard: a connection is abandoned when nothing has been answered for long, and not when somebody else's answer came
// while a wait ended.
func TestChannel_Heard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		silent  time.Time
		blocked bool
		want    bool
	}{
		{"silent for long", time.Now().Add(-time.Minute), false, true},
		{"silent for long, and blocked", time.Now().Add(-time.Minute), true, false},
		{"silent for a moment", time.Now(), false, false},
		{"all others were answered", time.Time{}, false, false},
	} {
		ours, theirs := net.Pipe()
		t.Cleanup(func() { theirs.Close() })
		c := &channel{conn: &conn{wire: &wire{Conn: ours}}, patience: newPatience(30 * time.Second), silent: test.silent}
		c.conn.blocked.Store(test.blocked)
		c.heard(false, true)
		if got := c.conn.gaveUp.Load() != nil; got != test.want {
			t.Errorf("%s: the connection is abandoned: %v, want %v", test.name, got, test.want)
		}
	}
}
