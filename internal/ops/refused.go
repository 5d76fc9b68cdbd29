package ops

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/saga"
)

// Refused says why something was not changed, and whether somebody else has changed it before. It returns "" for
// an error that is not about what was to be changed.
func Refused(err error) (reason string, overtaken bool) {
	var invalid *waybill.InvalidError
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return "it is not there, or not any more", true
	case errors.Is(err, deadletter.ErrResolved):
		return "it was resolved or discarded", true
	case errors.Is(err, deadletter.ErrRequeued):
		return "it was requeued and is pending", true
	case errors.Is(err, deadletter.ErrBehind):
		return "an earlier message of its key is still to be published: try again later", false
	case errors.Is(err, saga.ErrNotStuck):
		return "it is not stuck", true
	case errors.Is(err, saga.ErrNotRunning):
		return "it is not running: it is compensating, stuck, or has ended", true
	case errors.Is(err, saga.ErrNoSteps):
		return "it has no steps, so there is nothing that could be undone by itself", false
	case errors.As(err, &invalid):
		return "its " + invalid.Field + " " + invalid.Reason, false
	case waybill.IsConflict(err):
		return "it was changed at the same time; look at it again", true
	case waybill.IsPermanent(err) && waybill.ReasonOf(err) == waybill.ReasonNoID:
		return "its message has no id of its own, so that its consumer could not tell whether it was handled already: resolve or discard it", false
	}
	return "", false
}

// Outcome is the outcome for one dead letter of several.
type Outcome struct {
	Number int64
	Done   bool
	Failed bool   // it is not as it should be
	Gone   bool   // because somebody else has handled it
	Why    string // it was not done
}

// Try uses the verb on one dead letter of several. An error is one that others would meet as well.
func (v Verb) Try(ctx context.Context, s Stores, number int64, act deadletter.Act) (Outcome, error) {
	r, err := v.Do(ctx, s, Target{Number: number}, act)
	out := Outcome{Number: number, Done: r.Done, Failed: !r.Done}
	if err == nil && !r.Done && v.Ends != "" {
		var l deadletter.Letter
		l, err = s.Letters.DeadLetter(ctx, number)
		out.Failed = l.State != v.Ends
	}
	switch {
	case waybill.IsUnavailable(err):
		return out, err
	case errors.Is(err, waybill.ErrNotFound):
		out.Why, out.Gone = "there is no such dead letter", true
	case err != nil:
		reason, overtaken := Refused(err)
		out.Why, out.Gone = cmp.Or(reason, strings.TrimPrefix(err.Error(), "waybill: ")), overtaken
	case !out.Failed && !out.Done:
		out.Why = "it is " + v.Past + " already"
	case !out.Done:
		out.Why, out.Gone = "it "+v.Nothing, true
	}
	return out, nil
}
