package consumer

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-go/waybill"
)

// A consumer of a quiet topic is well again some time after the broker is, although nothing
// is delivered.
func TestReception(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r reception
		gone := errors.New("gone")
		want := func(age time.Duration, cause error) {
			t.Helper()
			var stalled *waybill.StalledError
			if err := r.health("receive"); !errors.As(err, &stalled) || stalled.Age != age || stalled.Err != cause || stalled.Loop != "receive" {
				t.Errorf("health() = %#v, want stalled for %v because of %v", err, age, cause)
			}
		}
		well := func() {
			t.Helper()
			if err := r.health("receive"); err != nil {
				t.Errorf("health() = %v, want nil", err)
			}
		}
		want(0, nil)
		r.begin()
		well()
		time.Sleep(time.Hour)
		r.end(gone)
		time.Sleep(time.Second)
		want(time.Second, gone)
		r.begin()
		time.Sleep(time.Second)
		r.end(gone)
		want(2*time.Second, gone)
		r.begin()
		r.delivers()
		well()
		r.end(gone)
		r.begin()
		time.Sleep(quietAfter)
		want(quietAfter, gone)
		time.Sleep(time.Nanosecond)
		well()
		r.end(nil)
		r.begin()
		well()
	})
}
