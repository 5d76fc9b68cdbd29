package compat

import (
	"context"
	"strings"
	"time"

	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/inbox/lease"
)

// markTTL is how long a key is leased between acquiring and marking it, which follow each other at
// once.
const markTTL = 30 * time.Second

// Keys is an inbox that checks a key before its message is handled and marks it afterwards.
// [lease.KeyOf] builds keys: {bus}:{group}:{alias}:{idKey}, with escapes. It is safe for concurrent use.
//
// The handler runs before anything is leased: two callers can run it at once for one key. Use
// the [lease.Store] itself, or a consumer on it, where that matters.
type Keys struct{ store lease.Store }

// NewKeys returns the two methods on a lease store. It returns an error if store is nil.
func NewKeys(store lease.Store) (*Keys, error) {
	if store == nil {
		return nil, required("store")
	}
	return &Keys{store: store}, nil
}

// IsProcessed reports whether the key is marked. False guarantees nothing: another caller may be processing it.
func (k *Keys) IsProcessed(ctx context.Context, key string) (bool, error) {
	rec, err := k.store.ReadLease(ctx, key)
	return rec.Status == lease.Processed, err
}

// MarkProcessed acquires the key and marks it. The error is [ErrAlreadyProcessed] if it was marked
// before, even by an own call whose answer was lost, and [inbox.ErrBusy] if it is leased; other
// errors are as for a [lease.Store].
func (k *Keys) MarkProcessed(ctx context.Context, key string) error {
	begun, err := k.store.TryBegin(ctx, lease.Request{Key: key, TTL: markTTL})
	if err != nil {
		return err
	}
	switch begun.Status {
	case lease.Acquired:
	case lease.Processed:
		return ErrAlreadyProcessed
	default:
		return inbox.ErrBusy
	}
	status, err := k.store.MarkProcessed(ctx, lease.Lease{Key: key, ID: begun.LeaseID, Token: begun.Token})
	if err == nil && status != lease.Processed { // we were so slow that another caller took over
		err = inbox.ErrBusy
	}
	return err
}

// IDs is like [Keys], for message ids: Exists and MarkAsProcessed, for one group of one bus.
type IDs struct {
	keys  *Keys
	group lease.Key
}

// NewIDs returns the two methods for the Tenant, Bus and Group of a key, whose other parts are
// ignored. Group must be set. The error names what is missing.
func NewIDs(store lease.Store, group lease.Key) (*IDs, error) {
	keys, err := NewKeys(store)
	if err != nil {
		return nil, err
	}
	if blank(group.Group) {
		return nil, required("group.Group")
	}
	return &IDs{keys: keys, group: lease.Key{Tenant: group.Tenant, Bus: group.Bus, Group: group.Group}}, nil
}

// Exists is [Keys.IsProcessed]. The id must not be blank.
func (s *IDs) Exists(ctx context.Context, messageID string) (bool, error) {
	if blank(messageID) {
		return false, required("messageID")
	}
	return s.keys.IsProcessed(ctx, s.key(messageID))
}

// MarkAsProcessed is [Keys.MarkProcessed]. The id must not be blank.
func (s *IDs) MarkAsProcessed(ctx context.Context, messageID string) error {
	if blank(messageID) {
		return required("messageID")
	}
	return s.keys.MarkProcessed(ctx, s.key(messageID))
}

func (s *IDs) key(messageID string) string {
	k := s.group
	k.Message = messageID
	return k.String()
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }
