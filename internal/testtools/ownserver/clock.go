//go:build unix

package ownserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Clock is the wall clock of a server of one test. The machine's clock, and the server's monotonic one, are not
// affected.
type Clock struct {
	t    *testing.T
	file string
}

// Clock gives the server its own clock, from its next start on. At first it shows the current time.
func (s *Server) Clock() *Clock {
	s.t.Helper()
	library, err := filepath.Glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
	if err != nil || len(library) == 0 {
		s.t.Fatal("libfaketime is not installed, run \"make services\"")
	}
	c := &Clock{t: s.t, file: filepath.Join(s.Dir, "clock")}
	s.env = []string{"LD_PRELOAD=" + library[0], "FAKETIME_TIMESTAMP_FILE=" + c.file, "FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1", "TZ=UTC"}
	c.Ahead(0)
	return c
}

// Ahead sets the clock to the current time plus by, which may be negative. It continues from there.
func (c *Clock) Ahead(by time.Duration) {
	c.t.Helper()
	c.write(fmt.Sprintf("%+d", int64(by/time.Second)))
}

// Stop stops the clock at a time.
func (c *Clock) Stop(at time.Time) {
	c.t.Helper()
	c.write(at.UTC().Format(time.DateTime))
}

// write replaces the file, which the server may be reading.
func (c *Clock) write(text string) {
	c.t.Helper()
	err := os.WriteFile(c.file+".new", []byte(text+"\n"), 0o644)
	if err == nil {
		err = os.Rename(c.file+".new", c.file)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}
