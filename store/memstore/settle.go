package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/outbox"
)

// SettleMessages implements [contract.Source].
func (s *Store) SettleMessages(ctx context.Context, req contract.SettleRequest) (lost []int, err error) {
	err = s.inTx(ctx, func(tx *Tx) error {
		var held []int
		for _, st := range req.Settlements {
			l := s.data.lanes[st.Claim.Lane.Number]
			if l.owner == req.Node && l.epoch == st.Claim.Lane.Epoch {
				held = append(held, st.Claim.Lane.Number)
			}
		}
		lost = settleplan.Lost(req.Settlements, held)
		s.settle(tx, settleplan.New(settleplan.Keep(req.Settlements, held)), req)
		return nil
	})
	return lost, err
}

// settle does the steps of a plan in their order.
func (s *Store) settle(tx *Tx, p *settleplan.Plan, req contract.SettleRequest) {
	for _, st := range p.Published {
		if r, ok := s.data.outbox[st.Claim.Position]; ok {
			drop(tx, s.data.outbox, r.position)
			s.archive(tx, waitingRow{row: r, destination: st.Claim.Destination}, req.Archive)
		}
	}
	s.park(tx, p.Park, req.Node)
	for _, r := range p.Follow {
		s.follow(tx, r)
	}
	s.eachWaiting(p.Done, func(_ settleplan.Row, w waitingRow) {
		drop(tx, s.data.waiting, w.place())
		s.archive(tx, w, req.Archive)
	})
	s.eachWaiting(p.Routed, func(_ settleplan.Row, w waitingRow) { drop(tx, s.data.waiting, w.place()) })
	s.eachWaiting(p.Bury, func(r settleplan.Row, w waitingRow) {
		drop(tx, s.data.waiting, w.place())
		if r.Attempts > w.attempts {
			w.history = s.tried(w.history, req.Node, r.Took, r.Error)
		}
		s.bury(tx, w, r)
	})
	s.eachWaiting(p.Schedule, func(_ settleplan.Row, w waitingRow) {
		drop(tx, s.data.waiting, w.place())
		put(tx, s.data.scheduled, w.position, w.row)
	})
	s.eachWaiting(p.Retry, func(r settleplan.Row, w waitingRow) { s.retry(tx, r, w, req.Node) })
	for _, u := range p.Promote {
		s.promote(tx, u)
	}
}

// eachWaiting calls do for each row of a step that is still there.
func (s *Store) eachWaiting(rows []settleplan.Row, do func(settleplan.Row, waitingRow)) {
	for _, r := range rows {
		if w, ok := s.data.waiting[place{r.Position, r.Destination}]; ok {
			do(r, w)
		}
	}
}

func (s *Store) archive(tx *Tx, w waitingRow, keep bool) {
	if !keep {
		return
	}
	s.data.published++
	put(tx, s.data.archive, s.data.published, archivedRow{waitingRow: w, publishedAt: s.now()})
}

// park moves rows from the outbox to the waiting rows.
func (s *Store) park(tx *Tx, rows []settleplan.Row, node string) {
	from := make(map[int64]row)
	for _, r := range rows {
		o, ok := s.data.outbox[r.Position]
		if ok {
			from[r.Position] = o
			drop(tx, s.data.outbox, r.Position)
		} else if o, ok = from[r.Position]; !ok {
			continue
		}
		if s.waitsFor(o.identity(), r.Destination) {
			continue
		}
		w := waitingRow{row: o, destination: r.Destination, alone: r.Alone, attempts: r.Attempts, life: r.Life, errText: r.Error}
		w.due = s.dueAfter(r, w)
		if r.Attempts > 0 {
			w.firstFailed = s.now()
			w.history = s.tried(nil, node, r.Took, r.Error)
		}
		put(tx, s.data.waiting, w.place(), w)
	}
}

// dueAfter returns when a row is due, the zero time if it is behind something in its unit.
func (s *Store) dueAfter(r settleplan.Row, w waitingRow) time.Time {
	if r.Behind || !r.Alone && s.data.waitsBefore(unitOf(&w.row, w.destination), w.position) {
		return time.Time{}
	}
	return s.now().Add(r.After)
}

func (s *Store) waitsFor(id outbox.Identity, destination string) bool {
	for _, w := range s.data.waiting {
		if w.identity() == id && w.destination == destination {
			return true
		}
	}
	return false
}

func (s *Store) follow(tx *Tx, r settleplan.Row) {
	w, ok := s.data.waiting[place{r.Position, r.Destination}]
	if !ok || s.waitsFor(w.identity(), r.Follower) {
		return
	}
	f := waitingRow{row: w.row, destination: r.Follower}
	if f.message.Key == "" {
		f.due = s.now()
	}
	put(tx, s.data.waiting, f.place(), f)
}

func (s *Store) retry(tx *Tx, r settleplan.Row, w waitingRow, node string) {
	if r.Behind && r.Error == "" && w.due.IsZero() {
		return // is behind already
	}
	if r.Attempts > w.attempts {
		w.history = s.tried(w.history, node, r.Took, r.Error)
	}
	w.due, w.alone = s.dueAfter(r, w), r.Alone
	w.attempts, w.life = r.Attempts, r.Life
	if !r.Behind || r.Error != "" {
		w.errText = r.Error
	}
	if r.Attempts > 0 {
		w.firstFailed = orNow(w.firstFailed, s.now())
	}
	put(tx, s.data.waiting, w.place(), w)
}

// tried is a history with one more attempt; the second one makes room if it is full.
func (s *Store) tried(history []deadletter.Attempt, node string, took time.Duration, errText string) []deadletter.Attempt {
	history = slices.Clone(history) // values in maps are never changed in place
	if len(history) >= deadletter.MaxHistory {
		history = slices.Delete(history, 1, 2)
	}
	return append(history, deadletter.Attempt{At: s.now().UTC(), Node: node, Took: took, Error: errText})
}

// bury makes a row a dead letter, with the number that it had if it was one before.
func (s *Store) bury(tx *Tx, w waitingRow, r settleplan.Row) {
	number := w.letter
	if number == 0 {
		s.data.number++
		number = s.data.number
	}
	l := letter{row: w.row, Letter: deadletter.Letter{
		Number: number, Origin: deadletter.FromRelay, Destination: w.destination, Reason: r.Reason, Error: r.Error,
		Attempts: r.Attempts, Requeues: w.life, Failed: r.Failed, Parks: r.Parks, State: deadletter.Open, Replay: w.replay,
		Fingerprint: deadletter.Fingerprint(deadletter.FromRelay, w.message.Address(), w.message.Type, r.Error),
		FirstFailed: orNow(w.firstFailed, s.now()), LastFailed: s.now(), Message: w.message, History: w.history,
	}}
	put(tx, s.data.letters, l.Number, l)
}
