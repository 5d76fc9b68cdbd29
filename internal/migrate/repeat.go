package migrate

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// LockWait is how long a migration waits for another one unless it is told otherwise.
const LockWait = time.Minute

const (
	repeatTries = 10
	repeatPause = time.Second
)

// Repeat runs fn, which does all or nothing, until it does not fail with a conflict: statements that
// were under way had the locks that it needed. It gives up after ten times, or when ctx ends, with the
// last error. The pause of a second after each is for those who have waited meanwhile.
func Repeat(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if !waybill.IsConflict(err) {
			return err
		}
		if try == repeatTries {
			return fmt.Errorf("given up after %d times: %w", repeatTries, err)
		}
		select {
		case <-time.After(repeatPause):
		case <-ctx.Done():
			return err
		}
	}
}
