package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// LockWait is how long a migration waits for another one by default.
const LockWait = time.Minute

const (
	repeatTries = 10
	repeatPause = time.Second
)

// Repeat runs fn, which does all or nothing, until it does not fail with a conflict: running
// statements had the locks that it needed. It stops after ten attempts, or when ctx ends, with the
// last error. The pause of a second after each is for sessions that have waited meanwhile.
func Repeat(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if !waybill.IsConflict(err) {
			return err
		}
		if try == repeatTries {
			return fmt.Errorf("gave up after %d attempts: %w", repeatTries, err)
		}
		select {
		case <-time.After(repeatPause):
		case <-ctx.Done():
			return err
		}
	}
}
