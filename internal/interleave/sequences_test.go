package interleave_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
)

// operation is one call of a sequence. What its numbers choose depends on what it does.
type operation struct {
	Do        string
	ID, Key   int
	N         int
	Hours     int
	Yes, Also bool
	Again     bool // it is done twice, as by somebody who was not told that it has been done
	Ended     bool // by somebody whose context has ended already: it has no effect
}

// draw makes an operation of a number: of 0, to which rapid shrinks what does not matter, none.
func draw(names []string, number uint64) operation {
	if number == 0 {
		return operation{}
	}
	r := rand.New(rand.NewPCG(number, number))
	return operation{
		Do: names[r.IntN(len(names))], ID: r.IntN(ids), Key: r.IntN(3), N: r.IntN(256), Hours: 1 + r.IntN(3),
		Yes: r.IntN(2) == 0, Also: r.IntN(4) == 0, Again: r.IntN(6) == 0, Ended: r.IntN(12) == 0,
	}
}

// ids is how many different messages there are.
const ids = 5

func (o operation) message(now time.Time) waybill.Message {
	m := msg(fmt.Sprint("m", o.ID), [...]string{"", "k1", "k2"}[o.Key])
	if o.Also {
		m.DeliverAt = now.Add(time.Duration(o.Hours) * time.Hour)
	}
	return m
}

// subject is a store that operations are done on. What they return is the same on every store.
type subject struct {
	name  string
	begin func(ctx context.Context) error
	do    func(ctx context.Context, o operation) string
	state func(ctx context.Context) string
}

// TestSequences does random sequences of operations on every store, some of them twice, some by callers whose context has
// ended or that own nothing any more. Each answers as the memory store does, and is in the same state in the end.
func TestSequences(t *testing.T) {
	t.Parallel()
	repeatable(t)
	model := subjectOf("memory", newMem())
	others := []subject{
		subjectOf("SQLite", newSQLite(t)), subjectOf("PostgreSQL", newPostgres(t, "read committed")), subjectOf("MariaDB", newMySQL(t, "REPEATABLE-READ")),
	}
	kinds := operations[any]()
	names := append(slices.Sorted(keys(kinds)), slices.Repeat([]string{"enqueue", "relay", "advance"}, 6)...) // most of all these
	one := rapid.Custom(func(t *rapid.T) operation { return draw(names, rapid.Uint64().Draw(t, "number")) })
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		sequence := rapid.SliceOfN(one, 60, 60).Draw(t, "sequence")
		for _, s := range append([]subject{model}, others...) {
			if err := s.begin(ctx); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		for i, o := range sequence {
			if o.Do == "" {
				continue
			}
			want := model.answers(ctx, o)
			for _, s := range others {
				if got := s.answers(ctx, o); got != want {
					t.Fatalf("%s after%s: %s\nin memory: %s", s.name, storyOf(sequence[:i+1]), got, want)
				}
			}
		}
		want := model.state(ctx)
		for _, s := range others {
			if got := s.state(ctx); got != want {
				t.Fatalf("%s is after%s in the state\n%s\nmemory in\n%s", s.name, storyOf(sequence), got, want)
			}
		}
	})
}

// answers does an operation, and returns what came of it each time.
func (s subject) answers(ctx context.Context, o operation) string {
	if o.Ended && o.Do != "advance" { // the clock is nobody's
		ended, cancel := context.WithCancel(ctx)
		cancel()
		ctx = ended
	}
	answer := s.do(ctx, o)
	if o.Again {
		answer += ", and again " + s.do(ctx, o)
	}
	return answer
}

// storyOf tells of operations, a line each.
func storyOf(sequence []operation) string {
	var out strings.Builder
	for _, o := range sequence {
		if o.Do != "" {
			fmt.Fprintf(&out, "\n  %+v", o)
		}
	}
	return out.String()
}

// repeatable lets rapid run a few sequences, the same ones each time; in make soak many, and others each time.
func repeatable(t *testing.T) {
	t.Helper()
	settings := map[string]string{"rapid.checks": "40", "rapid.seed": "1", "rapid.nofailfile": "true"}
	if os.Getenv("E2E_SOAK") != "" {
		settings = map[string]string{"rapid.checks": "2000", "rapid.nofailfile": "true"}
	}
	for name, value := range settings {
		must(t, flag.Set(name, value))
	}
}

// runner does operations on a store.
type runner[Tx any] struct {
	*env[Tx]
	moved time.Duration
	late  []contract.Claim // of a relay that has lost its lanes since
}

func subjectOf[Tx any](name string, e *env[Tx]) subject {
	r := &runner[Tx]{env: e}
	kinds := operations[Tx]()
	return subject{
		name: name,
		begin: func(ctx context.Context) error {
			r.moved, r.replay, r.late = 0, 0, nil
			if _, err := e.start(ctx, scenario[Tx]{}); err != nil {
				return err
			}
			e.node = "r1"
			return r.rejoin(ctx)
		},
		do: func(ctx context.Context, o operation) string {
			got, err := kinds[o.Do](ctx, r, o)
			return said(got, err)
		},
		state: func(ctx context.Context) string { return said(r.state(ctx)) },
	}
}

// said is what came of an operation. Errors that callers tell apart have names.
func said(got any, err error) string {
	for _, known := range []error{waybill.ErrNotFound, deadletter.ErrRequeued, deadletter.ErrResolved, janitor.ErrBusy, errGivesUp, errHandler, context.Canceled} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return fmt.Sprintf("%v error: %v", waybill.KindOf(err), err)
	}
	return fmt.Sprint(got)
}

func (r *runner[Tx]) rejoin(ctx context.Context) (err error) {
	r.lease, err = r.admin.RenewLanes(ctx, contract.LeaseRequest{Node: r.node, Join: true, TTL: 1000 * time.Hour})
	return err
}

func (r *runner[Tx]) now() time.Time { return time.Now().Add(r.moved) }

// inTransaction runs fn in a transaction of the caller.
func inTransaction[Tx, R any](ctx context.Context, r *runner[Tx], fn func(tx Tx) (R, error)) (got R, err error) {
	err = r.admin.inTx(ctx, func(tx Tx) (err error) {
		got, err = fn(tx)
		return err
	})
	return got, err
}

// operations are those of a store, by name.
func operations[Tx any]() map[string]func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
	return map[string]func(ctx context.Context, r *runner[Tx], o operation) (any, error){
		"enqueue": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) ([]bool, error) {
				return r.admin.EnqueueMessages(ctx, tx, outbox.Batch{Messages: []waybill.Message{o.message(r.now())}, Remember: o.Yes})
			})
		},
		"enqueue and roll back": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) ([]bool, error) {
				isNew, err := r.admin.EnqueueMessages(ctx, tx, outbox.Batch{Messages: []waybill.Message{o.message(r.now())}, Remember: o.Yes})
				return isNew, errors.Join(err, errGivesUp)
			})
		},
		"relay": func(ctx context.Context, r *runner[Tx], o operation) (any, error) { return r.relay(ctx, o.N) },
		"claim, and lose all lanes": func(ctx context.Context, r *runner[Tx], _ operation) (any, error) {
			late, err := r.claim(ctx, r.admin, r.lease)
			if err != nil {
				return nil, err
			}
			r.late = late
			if err := r.admin.LeaveLanes(ctx, r.node); err != nil {
				return nil, err
			}
			return len(late), r.rejoin(ctx)
		},
		"settle too late": func(ctx context.Context, r *runner[Tx], _ operation) (any, error) {
			lost, err := r.admin.SettleMessages(ctx, contract.SettleRequest{Node: r.node, Archive: true, Settlements: settled(contract.Published, r.late...)})
			return len(lost), err
		},
		"advance": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			d := time.Duration(o.Hours) * time.Hour
			r.moved += d
			return d, r.advance(ctx, d)
		},
		"requeue": letterOperation(func(p *party[Tx]) change { return p.RequeueDeadLetter }),
		"resolve": letterOperation(func(p *party[Tx]) change { return p.ResolveDeadLetter }),
		"discard": letterOperation(func(p *party[Tx]) change { return p.DiscardDeadLetter }),
		"restore": letterOperation(func(p *party[Tx]) change { return p.RestoreDeadLetter }),
		"delete":  letterOperation(func(p *party[Tx]) change { return p.DeleteDeadLetter }),
		"edit": letterOperation(func(p *party[Tx]) change {
			return func(ctx context.Context, number int64, act deadletter.Act) (bool, error) {
				payload := []byte("corrected")
				id, err := p.EditDeadLetter(ctx, number, deadletter.Edit{Payload: &payload}, act)
				return id != "", err
			}
		}),
		"cancel": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			m := o.message(r.now())
			return r.admin.CancelMessage(ctx, outbox.IdentityOf(&m), operator)
		},
		"cancel in a transaction": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) (outbox.Cancellation, error) {
				m := o.message(r.now())
				return r.admin.CancelEnqueued(ctx, tx, outbox.IdentityOf(&m))
			})
		},
		"schedule": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) (bool, error) {
				o.Also = true
				m := o.message(r.now())
				return r.admin.AddScheduled(ctx, tx, &m)
			})
		},
		"cancel what is scheduled": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) (bool, error) { return r.admin.CancelScheduled(ctx, tx, fmt.Sprint("m", o.ID)) })
		},
		"move what is scheduled": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) (bool, error) {
				return r.admin.MoveScheduled(ctx, tx, fmt.Sprint("m", o.ID), r.now().Add(time.Duration(o.Hours)*time.Hour))
			})
		},
		"release": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return r.admin.ReleaseScheduled(ctx, 10)
		},
		"handle": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			m := o.message(r.now())
			rec := inbox.RecordOf("billing", &m)
			rec.Retried = true
			return r.admin.ProcessOnce(ctx, rec, func(ctx context.Context, tx Tx) error {
				if o.Yes {
					return errHandler
				}
				return r.admin.effect(ctx, tx, m.ID)
			})
		},
		"handle a batch": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			var list []inbox.Record
			for i := range 3 {
				m := msg(fmt.Sprint("m", (o.ID+i)%ids), "")
				list = append(list, inbox.RecordOf("billing", &m))
			}
			var fresh []int
			outcomes, err := r.admin.ProcessBatch(ctx, list, func(_ context.Context, _ Tx, of []int) error {
				fresh = of
				return nil
			})
			return fmt.Sprint(outcomes, fresh), err
		},
		"fail": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			m := o.message(r.now())
			key := inbox.KeyOf("billing", &m)
			err := r.admin.SaveAttempt(ctx, key, contract.FailedAttempt{Count: o.N%5 + 1, Wait: time.Hour, Error: "no"})
			if err != nil {
				return nil, err
			}
			a, err := r.admin.FailedAttempts(ctx, key)
			return a.Count, err
		},
		"bury": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			m := o.message(r.now())
			return r.admin.BuryMessage(ctx, inbox.Letter{
				Record: inbox.RecordOf("billing", &m), Message: m, Reason: waybill.ReasonRejected, Error: "no", Attempts: o.N,
			})
		},
		"write a saga": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return inTransaction(ctx, r, func(tx Tx) (string, error) {
				in, err := r.admin.ReadSaga(ctx, tx, order, true)
				if errors.Is(err, waybill.ErrNotFound) {
					in, err = saga.Instance{ID: order, Definition: 1}, nil
				}
				if err != nil {
					return "", err
				}
				in.Status, in.State, in.Data = saga.Running, in.State+"x", json.RawMessage(`{}`)
				if o.Yes {
					in.Version--
				}
				written, err := r.admin.WriteSaga(ctx, tx, &in, saga.Entry{Status: in.Status})
				return fmt.Sprint(written, in.Version, in.State), err
			})
		},
		"start a replay": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			filter := deadletter.Filter{}
			if o.Yes {
				filter.Key = [...]string{"", "k1", "k2"}[o.Key]
			}
			var err error
			r.replay, err = r.admin.StartReplay(ctx, deadletter.Plan{Filter: filter}.Complete(), operator)
			return nil, err
		},
		"advance a replay": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			p, err := r.admin.AdvanceReplay(ctx, r.replay, o.N%3+1)
			return fmt.Sprint(p.State, p.Letters, p.Requeued, p.Skipped, p.Failed), err
		},
		"cancel a replay": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			return r.admin.CancelReplay(ctx, r.replay, operator)
		},
		"purge": func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
			kinds := []janitor.Kind{janitor.Inbox, janitor.Attempts, janitor.Letters, janitor.Sagas}
			return r.admin.PurgeExpired(ctx, janitor.Rows{Kind: kinds[o.N%len(kinds)], OlderThan: 90 * time.Minute}, 100)
		},
	}
}

type change func(ctx context.Context, number int64, act deadletter.Act) (bool, error)

// letterOperation changes one of the dead letters that there are.
func letterOperation[Tx any](of func(p *party[Tx]) change) func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
	return func(ctx context.Context, r *runner[Tx], o operation) (any, error) {
		list, err := r.letters(ctx)
		if err != nil || len(list) == 0 {
			return "no dead letters", err
		}
		return of(r.admin)(ctx, list[o.N%len(list)].Number, operator)
	}
}

// letters returns all dead letters, by what they say: of several that come to be at once the numbers are a store's own.
func (r *runner[Tx]) letters(ctx context.Context) (list []deadletter.Letter, err error) {
	for _, s := range []deadletter.State{deadletter.Open, deadletter.Resolved, deadletter.Discarded} {
		of, err := r.admin.DeadLetters(ctx, deadletter.Filter{State: s})
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	slices.SortStableFunc(list, func(a, b deadletter.Letter) int { return strings.Compare(letterText(&a), letterText(&b)) })
	return list, nil
}

func letterText(l *deadletter.Letter) string {
	resolution, _, _ := strings.Cut(l.Resolution, " as ") // the id of a copy
	return fmt.Sprintln(nameOf(&l.Message), l.Message.Key, l.Origin, l.Consumer, l.Reason, l.Error, l.Attempts, l.Requeues, l.Failed, l.Requeued,
		l.Parks, l.Behind, l.State, resolution, l.Replay > 0)
}

// relay claims what may go, and settles each message in one of several ways, by the digits of n.
func (r *runner[Tx]) relay(ctx context.Context, n int) (string, error) {
	claims, err := r.claim(ctx, r.admin, r.lease)
	if err != nil {
		return "", err
	}
	slices.SortFunc(claims, func(a, b contract.Claim) int { return cmp.Compare(a.Position, b.Position) })
	held := make(map[string]bool) // keys of which an earlier message waits
	list := make([]contract.Settlement, len(claims))
	story := make([]string, len(claims))
	for i := range claims {
		c := &claims[i]
		name, key := nameOf(&c.Message), c.Message.Key
		list[i] = settlementOf(c, n>>(2*(name[len(name)-1]%4))&3, held[key])
		if key != "" && (list[i].Outcome == contract.Wait || list[i].Park) {
			held[key] = true
		}
		story[i] = fmt.Sprint(name, "/", key, " ", c.Waiting, c.Blocked, c.Attempts, c.Life, c.DelayFor > 0)
	}
	_, err = r.admin.SettleMessages(ctx, contract.SettleRequest{Node: r.node, Archive: true, Settlements: list})
	return strings.Join(story, "; "), err
}

// settlementOf decides what becomes of a message, as a relay with the policy park might.
func settlementOf(c *contract.Claim, kind int, behind bool) contract.Settlement {
	s := contract.Settlement{Claim: c, Outcome: contract.Published, Attempts: c.Attempts, Life: c.Life}
	switch {
	case c.DelayFor > 0:
		s.Outcome = contract.Schedule
	case behind, c.Blocked:
		s.Outcome, s.Behind = contract.Wait, true
	case kind == 1:
		s.Outcome, s.Attempts, s.After, s.Error = contract.Wait, c.Attempts+1, time.Hour, "busy"
	case kind > 1:
		s.Outcome, s.Attempts, s.Error, s.Reason, s.Park = contract.Dead, c.Attempts+1, "no", waybill.ReasonExhausted, kind == 3 && c.Message.Key != ""
	}
	return s
}

// nameOf is the id of a message, or what it is a copy of.
func nameOf(m *waybill.Message) string {
	switch {
	case m.CausationID == "":
		return m.ID
	case strings.HasPrefix(m.CausationID, "m"):
		return "copy of " + m.CausationID
	}
	return "copy of a copy"
}

// state is what can be seen of the store.
func (r *runner[Tx]) state(ctx context.Context) (string, error) {
	var out strings.Builder
	for i := range ids {
		places, err := r.places(ctx, fmt.Sprint("m", i))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(&out, i, places)
	}
	list, err := r.letters(ctx)
	if err != nil {
		return "", err
	}
	for i := range list {
		out.WriteString(letterText(&list[i]))
	}
	effects, err := r.effects(ctx)
	if err != nil {
		return "", err
	}
	keys, messages, err := r.admin.CountParked(ctx, r.lease.Lanes)
	fmt.Fprintln(&out, "parked", keys, messages, "effects", slices.Sorted(slices.Values(effects)))
	return out.String(), err
}
