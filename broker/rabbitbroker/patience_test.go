package rabbitbroker

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a connection is abandoned when nothing was answered for as long as the publisher is patient,
// which is twice as long each time, until answers come fast again.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const least = 10 * time.Second
		p := newPatience(least)
		gaveUp := func(answers, blocked bool) bool { // over three times least, with answers each 9 seconds or without
			client, server := net.Pipe()
			defer server.Close()
			c := &channel{conn: &conn{wire: &wire{Conn: client}}, patience: p, inFlight: map[int64]*flight{1: {}}, silent: time.Now()}
			c.conn.blocked.Store(blocked)
			for range 10 {
				<-time.After(3 * time.Second)
				c.heard(false, true)
				<-time.After(time.Second * 6 / 10)
				c.heard(answers, true)
			}
			return c.conn.gaveUp.Load() != nil
		}
		if gaveUp(true, false) {
			t.Error("the connection was abandoned though the server answers")
		}
		if gaveUp(false, true) {
			t.Error("the connection was abandoned though the server has said that it takes nothing")
		}
		for i, want := range []bool{true, true, false} { // after 10, 20, and 40 seconds
			if got := gaveUp(false, false); got != want {
				t.Errorf("connection %d: abandoned: %t, want %t", i, got, want)
			}
		}
		p.answered(least)
		if gaveUp(false, false) {
			t.Error("a server that answers slowly has been forgotten")
		}
		p.answered(time.Second)
		if !gaveUp(false, false) {
			t.Error("a server that answers fast again is waited for as if it were slow")
		}
		for range 100 {
			p.ended(time.Hour)
		}
		if got, want := time.Duration(p.now.Load()), mostPatience*least; got != want {
			t.Errorf("patience in the end: %v, want %v", got, want)
		}
	})
}
