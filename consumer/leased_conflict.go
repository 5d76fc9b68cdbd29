package consumer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// conflicting decides what to do with a message that has the key of another one, which was
// processed. Its attempts and its dead letter are kept under a separate key, so that copies of it
// are distinguished from the first message and share one dead letter.
func (c *Leased) conflicting(work context.Context, rec inbox.Record, m *waybill.Message, taken string) verdict {
	if c.cfg.OnConflict == ConflictSkip {
		c.conflict(work, m)
		return done
	}
	key := c.conflictKey(rec, taken)
	answer, asked, err := c.begin(work, key, rec.PayloadHash)
	if err != nil {
		return c.unavailable(work, m, fmt.Errorf("begin lease of a conflict: %w", err))
	}
	return c.begun(work, m, answer, func() verdict {
		own := leasedMessage{m, rec, leaseOf(key, answer), answer.Attempts, asked, answer.Remaining}
		return c.settleFailed(work, own, c.conflict(work, m))
	})
}

// conflictKey returns the key of a payload whose message has a key that is taken. No other message
// has it: the keys of messages end in an id.
func (c *Leased) conflictKey(rec inbox.Record, taken string) string {
	sum := sha256.Sum256([]byte(taken + " " + rec.PayloadHash))
	return lease.Key{Tenant: rec.Tenant, Bus: c.leases.Bus, Group: rec.Consumer, Alias: hex.EncodeToString(sum[:])}.String()
}
