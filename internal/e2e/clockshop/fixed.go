//go:build !movable

package main

import "time"

// moveClock does nothing in a build of everything.
func moveClock(time.Duration) {}
