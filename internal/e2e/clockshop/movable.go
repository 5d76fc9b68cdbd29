//go:build movable

package main

import "time"

func moveClock(by time.Duration) { time.MoveClock(by) }
