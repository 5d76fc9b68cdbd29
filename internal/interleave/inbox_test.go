package interleave_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/janitor"
)

func inboxScenarios[Tx any]() []scenario[Tx] {
	return []scenario[Tx]{
		{"two batches with the same messages in opposite order", nil, []session[Tx]{batch[Tx]("a", "b"), batch[Tx]("b", "a")}, wantEffectsOnce[Tx]},
		{"two batches that share a message", nil, []session[Tx]{batch[Tx]("a", "b"), batch[Tx]("b", "c")}, wantEffectsOnce[Tx]},
		{"a batch and a copy of one of its messages", nil, []session[Tx]{batch[Tx]("b", "a"), handles[Tx](nil)}, wantEffectsOnce[Tx]},
		{"a record of one's own and a consumer", nil, []session[Tx]{records[Tx], handles[Tx](nil)}, wantOneEffect[Tx]},
		{"two records of one's own", nil, []session[Tx]{records[Tx], records[Tx]}, wantOneEffect[Tx]},
		{"an attempt is saved while a copy is handled", nil, []session[Tx]{fails[Tx], handles[Tx](nil)}, wantOneEffect[Tx]},
		{"a failed message is dead-lettered while another attempt is saved", nil, []session[Tx]{buries[Tx], fails[Tx]}, wantBuriedOrDone[Tx]},
		{"a message is dead-lettered by two", nil, []session[Tx]{buries[Tx], buries[Tx]}, wantBuriedOrDone[Tx]},
		{"a record is purged while a copy comes", handled[Tx], []session[Tx]{purges[Tx](janitor.Inbox), handles[Tx](nil)}, wantPurgedOrDuplicate[Tx]},
		{"a lease that has run out is renewed and taken over", leased[Tx], []session[Tx]{renewsLease[Tx], leases[Tx]}, wantOneLease[Tx]},
		{"a lease that has run out is released and taken over twice", leased[Tx], []session[Tx]{releasesLease[Tx], leases[Tx], leases[Tx]}, wantOneLease[Tx]},
		{"a lease is renewed while it is marked", leased[Tx], []session[Tx]{renewsLease[Tx], marks[Tx]}, wantMarked[Tx]},
		{"a lease is marked twice", leased[Tx], []session[Tx]{marks[Tx], marks[Tx]}, wantMarked[Tx]},
		{"a request with no attempts left comes again while its lease is released", asked[Tx], []session[Tx]{asks[Tx], givesBack[Tx](false)}, wantAnswers[Tx](lease.Acquired, lease.Exhausted, lease.Released)},
		{"a request with no attempts left comes again while its attempt is taken back", asked[Tx], []session[Tx]{asks[Tx], givesBack[Tx](true)}, wantAnswers[Tx](lease.Acquired, lease.Released)},
		{"a request comes again twice while its attempt is taken back", asked[Tx], []session[Tx]{asks[Tx], asks[Tx], givesBack[Tx](true)}, wantAnswers[Tx](lease.Acquired, lease.Released)},
		{"two keys are leased in opposite order", nil, []session[Tx]{leasesAll[Tx]("k1", "k2"), leasesAll[Tx]("k2", "k1")}, wantLeasedOnce[Tx]},
	}
}

// batch processes messages in one transaction.
func batch[Tx any](ids ...string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		list := make([]inbox.Record, len(ids))
		for i, id := range ids {
			m := msg(id, "k")
			list[i] = inbox.RecordOf("billing", &m)
		}
		var done []string
		_, err := p.ProcessBatch(ctx, list, func(ctx context.Context, tx Tx, fresh []int) error {
			done = nil
			for _, i := range fresh {
				if err := p.effect(ctx, tx, ids[i]); err != nil {
					return err
				}
				done = append(done, ids[i])
			}
			return nil
		})
		if err == nil {
			p.say("handles %v", done)
			p.committed = done
		}
		return err
	}
}

// wantEffectsOnce expects the effects of the messages that were handled, each once, and that some were.
func wantEffectsOnce[Tx any](ctx context.Context, e *env[Tx]) error {
	got, err := e.effects(ctx)
	if err != nil {
		return err
	}
	var want []string
	for _, p := range e.parties[:e.active] {
		want = append(want, p.committed...)
		if slices.Contains(p.notes, fmt.Sprint(inbox.Processed)) {
			want = append(want, "a")
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if len(got) == 0 || !slices.Equal(got, want) || len(slices.Compact(slices.Clone(got))) != len(got) {
		return fmt.Errorf("effects %v, want %v, each once", got, want)
	}
	return nil
}

// records handles a message in a transaction of its own.
func records[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	var isNew bool
	err := p.inTx(ctx, func(tx Tx) (err error) {
		if isNew, err = p.AddRecord(ctx, tx, inbox.RecordOf("billing", &m)); err != nil {
			return conflicts(err)
		}
		if !isNew {
			return errGivesUp
		}
		return p.effect(ctx, tx, "a")
	})
	switch {
	case !isNew && errors.Is(err, errGivesUp):
		p.say("%v", inbox.Duplicate)
		return nil
	case err == nil:
		p.say("%v", inbox.Processed)
	}
	return err
}

// fails saves a failed attempt.
func fails[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	m := msg("a", "k")
	p.say("failed")
	return p.SaveAttempt(ctx, inbox.KeyOf("billing", &m), contract.FailedAttempt{Count: 1, Error: "no"})
}

// handled has a message that was processed long ago.
func handled[Tx any](ctx context.Context, e *env[Tx]) error {
	if err := handles[Tx](nil)(ctx, e, e.admin); err != nil {
		return err
	}
	return e.advance(ctx, time.Hour)
}

// wantPurgedOrDuplicate expects a second effect only of a copy that has found no record.
func wantPurgedOrDuplicate[Tx any](ctx context.Context, e *env[Tx]) error {
	got, err := e.effects(ctx)
	if want := 1 + len(e.said(fmt.Sprint(inbox.Processed))); err == nil && len(got) != want {
		err = fmt.Errorf("%d effects, want %d", len(got), want)
	}
	return err
}

func renewsLease[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	a, err := p.RenewLease(ctx, e.held, time.Hour)
	p.say("%v", a.Status)
	return err
}

func releasesLease[Tx any](ctx context.Context, e *env[Tx], p *party[Tx]) error {
	status, err := p.ReleaseLease(ctx, e.held, lease.Release{})
	p.say("%v", status)
	return err
}

// wantMarked expects that the key is processed, unless a session has clashed.
func wantMarked[Tx any](ctx context.Context, e *env[Tx]) error {
	r, err := e.admin.ReadLease(ctx, "key")
	marked := len(e.said(fmt.Sprint(lease.Processed))) > 0
	if err == nil && (marked != (r.Status == lease.Processed) || !marked && !e.anyClashed()) {
		err = fmt.Errorf("marked: %v, the key is %v", marked, r.Status)
	}
	return err
}

func onlyRequest() lease.Request {
	return lease.Request{Key: "key", TTL: time.Hour, MaxAttempts: 1, RequestID: "the-only-request"}
}

// asked has a lease whose request has no more attempts.
func asked[Tx any](ctx context.Context, e *env[Tx]) error {
	a, err := e.admin.TryBegin(ctx, onlyRequest())
	e.held = lease.Lease{Key: "key", ID: a.LeaseID, Token: a.Token}
	return err
}

func asks[Tx any](ctx context.Context, _ *env[Tx], p *party[Tx]) error {
	a, err := p.TryBegin(ctx, onlyRequest())
	p.say("%v", a.Status)
	return err
}

func givesBack[Tx any](uncounted bool) session[Tx] {
	return func(ctx context.Context, e *env[Tx], p *party[Tx]) error {
		status, err := p.ReleaseLease(ctx, e.held, lease.Release{Uncounted: uncounted})
		p.say("%v", status)
		return err
	}
}

// wantAnswers expects that each session has one of the answers, unless it has clashed, and that no request exceeds its attempts.
func wantAnswers[Tx any](list ...lease.Status) func(context.Context, *env[Tx]) error {
	return func(ctx context.Context, e *env[Tx]) error {
		for _, p := range e.parties[:e.active] {
			if !p.clashed() && !slices.ContainsFunc(list, func(s lease.Status) bool { return slices.Contains(p.notes, string(s)) }) {
				return fmt.Errorf("a session received %q, want one of %v", p.notes, list)
			}
		}
		r, err := e.admin.ReadLease(ctx, "key")
		if err == nil && r.Attempts > onlyRequest().MaxAttempts {
			err = fmt.Errorf("%d attempts, want one at most", r.Attempts)
		}
		return err
	}
}

// leasesAll leases several keys in one call.
func leasesAll[Tx any](keys ...string) session[Tx] {
	return func(ctx context.Context, _ *env[Tx], p *party[Tx]) error {
		list := make([]lease.Request, len(keys))
		for i, k := range keys {
			list[i] = lease.Request{Key: k, TTL: time.Minute}
		}
		answers, err := p.TryBeginAll(ctx, list)
		for i, a := range answers {
			p.say("%s %v", keys[i], a.Status)
		}
		return err
	}
}

// wantLeasedOnce expects that each key is leased by one of the sessions.
func wantLeasedOnce[Tx any](_ context.Context, e *env[Tx]) error {
	return cmp.Or(e.wantOne(fmt.Sprint("k1 ", lease.Acquired)), e.wantOne(fmt.Sprint("k2 ", lease.Acquired)))
}
