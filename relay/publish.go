package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/internal/relaycore"
	"github.com/waybill-go/waybill/observe"
)

// publish sends a batch, and calls cut at the end. Batches are passed to the publisher in order, except that a
// slow one is overtaken: sent is closed when this one was passed, before when the one before was.
func (r *run) publish(ctx context.Context, cut func(), b *relaycore.Batch, before <-chan struct{}, sent chan struct{}) {
	defer cut()
	r.awaitTurn(ctx, before)
	d := r.dests[b.Dest]
	limited, cancel := context.WithTimeout(ctx, b.Limit)
	defer cancel()
	out := outgoing(b, d.Structured)
	msgs := make([]*waybill.Message, len(out))
	for i := range out {
		msgs[i] = out[i].Message
	}
	limited, end := r.cfg.Observer.Start(observe.WithName(limited, r.cfg.Node), observe.OpPublish, msgs...)
	handedOver := false
	next := func() {
		if !handedOver {
			handedOver = true
			close(sent)
		}
	}
	errs := d.send(limited, out, next)
	next()
	end(observe.BatchError(errs).Err())
	r.handle(relaycore.Answered{Batch: b, Results: r.results(d, msgs, errs), Window: dedupWindow(d.Publisher)})
}

// awaitTurn waits until the batch before was passed to the publisher, or is slow.
func (r *run) awaitTurn(ctx context.Context, before <-chan struct{}) {
	if before == nil {
		return
	}
	select {
	case <-before:
		return
	default:
	}
	limit := time.NewTimer(min(r.cfg.PublishTimeout/4, time.Second))
	defer limit.Stop()
	select {
	case <-before:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// outgoing returns a batch in the form for a publisher.
func outgoing(b *relaycore.Batch, structured bool) []contract.Outgoing {
	out := make([]contract.Outgoing, len(b.Messages))
	for i, m := range b.Messages {
		c := claimOf(m)
		out[i] = contract.Outgoing{
			Message:    &c.Message,
			Row:        contract.Row{Lane: m.Lane.Number, Position: m.Position, Destination: m.Dest},
			DedupID:    dedupID(c.Message.ID, m.Life),
			Resent:     m.Resent,
			Structured: structured,
		}
	}
	return out
}

func dedupID(id string, life int) string {
	if life == 0 {
		return id
	}
	return fmt.Sprintf("%s#r%d", id, life)
}

// send publishes messages and returns one error for each. handedOver is called when the next batch may
// be passed to the publisher, too. A panic of the publisher counts as a lost connection: the message
// that causes it is found in the same way.
func (d *destination) send(ctx context.Context, out []contract.Outgoing, handedOver func()) (errs []error) {
	defer func() {
		if p := recover(); p != nil {
			err := waybill.UnavailableError(fmt.Errorf("publisher panicked: %v: %w", p, contract.ErrConnectionLost))
			errs = fillErrors(len(out), err)
		}
	}()
	wait := d.Publisher.Send(ctx, out)
	handedOver()
	errs = wait()
	if len(errs) != len(out) {
		err := waybill.UnavailableError(fmt.Errorf("publisher returned %d results for %d messages", len(errs), len(out)))
		return fillErrors(len(out), err)
	}
	for i, err := range errs {
		errs[i] = readable(err)
	}
	return errs
}

// readable returns err, or, if a method of it panics, an error that says so.
func readable(err error) error {
	if err == nil {
		return nil
	}
	if p := loop.Protect(func() error { _, _ = observe.ErrorText(err), waybill.KindOf(err); return nil }); p != nil {
		return fmt.Errorf("publisher returned an error that cannot be read: %w", p)
	}
	return err
}

func fillErrors(n int, err error) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// results classifies errors of a publisher, and finds the followers of accepted messages. It returns
// nil if everything was accepted and there are no followers.
func (r *Relay) results(d *destination, msgs []*waybill.Message, errs []error) []relaycore.Result {
	follows := len(r.cfg.Followers) > 0 && !d.follower
	if !follows && observe.BatchError(errs).Err() == nil {
		return nil
	}
	results := make([]relaycore.Result, len(errs))
	for i, err := range errs {
		if err != nil {
			results[i] = resultOf(err)
		} else if follows {
			results[i].Followers = r.followersOf(msgs[i])
		}
	}
	return results
}

// resultOf classifies an error of a publisher.
func resultOf(err error) relaycore.Result {
	after, _ := waybill.AfterOf(err)
	res := relaycore.Result{Err: err, Kind: waybill.KindOf(err), After: after, Swallowed: errors.Is(err, contract.ErrSwallowed), Unsure: unanswered(err)}
	switch res.Kind {
	case waybill.Permanent:
		res.Reason = waybill.ReasonOf(err)
	case waybill.Unavailable:
		res.Lost = errors.Is(err, contract.ErrConnectionLost)
	}
	return res
}

func (r *Relay) followersOf(m *waybill.Message) (names []string) {
	for _, f := range r.cfg.Followers {
		if yes, _ := r.dests[f.Name].matches(m); yes {
			names = append(names, f.Name)
		}
	}
	return names
}

// unanswered reports whether a message may have reached the broker in spite of err.
func unanswered(err error) bool {
	return waybill.IsUnavailable(err) &&
		(errors.Is(err, contract.ErrConnectionLost) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled))
}

// dedupWindow is 0, not known, if the publisher panics: the messages were sent.
func dedupWindow(p contract.Publisher) (window time.Duration) {
	if d, ok := p.(contract.Deduplicator); ok {
		_ = loop.Protect(func() error {
			window = d.DedupWindow()
			return nil
		})
	}
	return window
}
