package asbbroker

import (
	"testing"
	"time"
)

func TestNotBefore(t *testing.T) {
	for at, want := range map[time.Time]time.Time{
		time.Unix(1, 0):         time.Unix(1, 0),
		time.Unix(1, 1):         time.Unix(1, 1_000_000),
		time.Unix(1, 999_999):   time.Unix(1, 1_000_000),
		time.Unix(1, 1_000_000): time.Unix(1, 1_000_000),
	} {
		if got := notBefore(at); !got.Equal(want) {
			t.Errorf("notBefore(%v) = %v, want %v", at.UTC(), got, want.UTC())
		}
	}
}
