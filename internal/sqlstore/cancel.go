package sqlstore

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/settleplan"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/outbox"
)

// CancelStatements are the SQL texts of [Core.CancelMessage].
type CancelStatements struct {
	Find          string // takes an identity; returns what [scanCancelled] reads
	LockLane      string // takes a lane; blocks settlements, and a change of owner, until the transaction ends
	LockScheduled string `sql:",optional"` // takes the position of a scheduled message; blocks relays. Empty if Refuse does it.
	Refuse        string // makes a scheduled message a dead letter; takes a position, a reason and an error
	Remove        string `sql:",optional"` // removes it; takes a position. Empty if Refuse does it.
	Letter        string // takes id, position and destination of a row that became an open dead letter
}

// cancelled is a place in which a message was found.
type cancelled struct {
	claim  contract.Claim
	status inspect.Status
	due    bool // a relay may have claimed it
}

func scanCancelled(r sqldb.Rows) (p cancelled, err error) {
	c, m := &p.claim, &p.claim.Message
	due := 0
	err = r.Scan(&p.status, &c.Position, &c.Lane.Number, &c.Destination, &m.Topic, &m.Key, &m.Type, &c.Attempts, &due)
	c.Waiting, p.due = p.status == inspect.Waiting, due == 1
	return p, err
}

// CancelEnqueued implements [outbox.Store].
func (c *Core[Tx]) CancelEnqueued(ctx context.Context, tx Tx, id outbox.Identity) (outbox.Cancellation, error) {
	out, err := c.cancel(ctx, c.DB.On(tx), id, settleplan.CancelledByWriter, func(int64) error { return nil })
	return out, c.Kind(err)
}

// CancelMessage implements [deadletter.Canceller].
func (c *Core[Tx]) CancelMessage(ctx context.Context, id outbox.Identity, act deadletter.Act) (out outbox.Cancellation, err error) {
	if err := errors.Join(act.Check(), id.Check()); err != nil {
		return out, err
	}
	err = c.InTx(ctx, func(_ Tx, conn sqldb.Conn) error {
		out, err = c.cancel(ctx, conn, id, act.Why, func(letter int64) error {
			return c.audit(ctx, conn, deadletter.ActCancelMessage, act, deadletter.Entry{Letter: letter, MessageID: id.ID})
		})
		return err
	})
	if err != nil {
		return outbox.Cancellation{}, err
	}
	if out.Removed > 0 {
		c.WakeRelay()
	}
	return out, nil
}

// maxCancelLooks is how often a message is looked for that moves from place to place meanwhile. A
// transaction that reads from the snapshot of its start never finds it again.
const maxCancelLooks = 5

// cancel makes a message a discarded dead letter wherever it is, and passes the dead letters to each.
// A transaction that moves it from where it was found, before that is locked, leaves it in another
// place.
func (c *Core[Tx]) cancel(ctx context.Context, conn sqldb.Conn, id outbox.Identity, why string, each func(letter int64) error) (out outbox.Cancellation, err error) {
	for range maxCancelLooks {
		rows, err := conn.Query(ctx, c.SQL.Cancel.Find, id.ID, id.Source, id.Tenant)
		places, err := sqldb.Collect(rows, err, scanCancelled)
		if err != nil || len(places) == 0 {
			return out, err
		}
		removed, err := c.cancelAt(ctx, conn, id, places, why, each, &out)
		if err != nil || removed == len(places) {
			return out, err
		}
	}
	return out, waybill.ConflictError(errors.New("the message that is to be cancelled was moved at the same time"))
}

// cancelAt does so in the places in which the message was found, and returns in how many it still was.
func (c *Core[Tx]) cancelAt(ctx context.Context, conn sqldb.Conn, id outbox.Identity, places []cancelled, why string, each func(letter int64) error, out *outbox.Cancellation) (removed int, err error) {
	var claims []contract.Claim
	for i := range places {
		p := &places[i]
		p.claim.Message.ID = id.ID
		if p.status == inspect.Scheduled {
			err = c.refuseCancelled(ctx, conn, p.claim.Position)
		} else {
			err = c.lockLane(ctx, conn, p)
			claims = append(claims, p.claim)
		}
		if err != nil {
			return 0, err
		}
	}
	if len(claims) > 0 {
		if err := c.Settle(ctx, conn, settleplan.Cancel(claims)); err != nil {
			return 0, err
		}
	}
	for _, p := range places {
		gone, err := c.discardCancelled(ctx, conn, id, p, why, each)
		if err != nil {
			return 0, err
		}
		if gone {
			removed++
			out.InFlight = out.InFlight || p.due
		}
	}
	out.Removed += removed
	return removed, c.NameLetters(ctx, conn)
}

// lockLane locks the lane of a place. If it has no owner no relay can have claimed what is there.
func (c *Core[Tx]) lockLane(ctx context.Context, conn sqldb.Conn, p *cancelled) error {
	rows, err := conn.Query(ctx, c.SQL.Cancel.LockLane, p.claim.Lane.Number)
	owned, _, err := sqldb.One(rows, err, sqldb.Scan[int])
	p.due = p.due && owned == 1
	return err
}

// refuseCancelled makes a scheduled message a dead letter, unless a relay has released it.
func (c *Core[Tx]) refuseCancelled(ctx context.Context, conn sqldb.Conn, position int64) error {
	if c.SQL.Cancel.LockScheduled != "" {
		rows, err := conn.Query(ctx, c.SQL.Cancel.LockScheduled, position)
		if _, found, err := sqldb.One(rows, err, sqldb.Scan[int64]); err != nil || !found {
			return err
		}
	}
	_, err := conn.Exec(ctx, c.SQL.Cancel.Refuse, position, string(waybill.ReasonCancelled), settleplan.CancelledError)
	if err == nil && c.SQL.Cancel.Remove != "" {
		_, err = conn.Exec(ctx, c.SQL.Cancel.Remove, position)
	}
	return err
}

// discardCancelled discards the dead letter that a place has become, and reports whether there was
// one.
func (c *Core[Tx]) discardCancelled(ctx context.Context, conn sqldb.Conn, id outbox.Identity, p cancelled, why string, each func(letter int64) error) (bool, error) {
	rows, err := conn.Query(ctx, c.SQL.Cancel.Letter, id.ID, p.claim.Position, p.claim.Destination)
	number, found, err := sqldb.One(rows, err, sqldb.Scan[int64])
	if err != nil || !found {
		return false, err
	}
	if _, err := conn.Exec(ctx, c.SQL.SettleLetter, number, string(deadletter.Discarded), why); err != nil {
		return false, err
	}
	return true, each(number)
}
