package consumer

import (
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// Leases says how a [Leased] consumer leases messages, and where it puts dead letters.
type Leases struct {
	// Bus names the broker, or the virtual host, that the consumer receives from. Like
	// Subscription.Group it is part of the key, so under a new name everything is handled again.
	// Required.
	Bus string

	// SourceInKey makes the message's Source part of the key, for producers whose ids are unique per
	// source only. Programs in other languages share this consumer's keys only if theirs have it too.
	// Without it two messages of one type and id are copies of each other, whoever produced them; if
	// their payloads differ, Config.OnConflict says what to do with the second. Optional.
	SourceInKey bool

	// TTL is how long a lease lasts unless it is renewed, and so how long a message waits whose process
	// was killed. It is renewed each third of that for as long as the handler runs; if the renewals
	// fail, the handler's context ends a sixth of that before the lease. At least 100 ms, at most
	// [lease.MaxTTL], and less than InboxRetention. Optional; the default is 60 s.
	TTL time.Duration

	// Letters says where dead letters go: [LettersIn] a store, or [LettersTo] something else. Required.
	Letters Letters

	// FailOpen handles messages without a lease while the lease store does not answer, reported
	// as [observe.OpUnleased]: copies of a message may be handled several times then, even
	// concurrently. Otherwise messages wait until the store is back, and no attempt is counted.
	FailOpen bool
}

const (
	defaultLeaseTTL = 60 * time.Second
	minLeaseTTL     = 100 * time.Millisecond
)

func (l Leases) withDefaults(group string, cfg *Config) (Leases, error) {
	fill(&l.TTL, defaultLeaseTTL)
	owner := lease.Key{Tenant: strings.Repeat("t", waybill.MaxTenantLen), Bus: l.Bus, Group: group, Message: strings.Repeat("m", lease.MaxKeyLen)}
	switch {
	case l.Bus == "":
		return l, invalidf("consumer.Leases.Bus", "is required")
	case lease.ValidateKey(owner.String()) != nil:
		return l, invalidf("consumer.Leases.Bus", "has %d bytes and Subscription.Group %d; with a tenant and a hash they do not fit into the %d bytes of a key", len(l.Bus), len(group), lease.MaxKeyLen)
	case l.TTL < minLeaseTTL || l.TTL > lease.MaxTTL:
		return l, invalidf("consumer.Leases.TTL", "is %v, the range is %v to %v", l.TTL, minLeaseTTL, lease.MaxTTL)
	case l.TTL >= cfg.InboxRetention:
		return l, invalidf("consumer.Leases.TTL", "is %v; it must be less than InboxRetention, which is %v", l.TTL, cfg.InboxRetention)
	case !l.Letters.Set():
		return l, invalidf("consumer.Leases.Letters", "is required: LettersIn or LettersTo says where dead letters go")
	case cfg.BatchSize > 1:
		return l, invalid("BatchSize", "is %d; under leases messages are handled one by one", cfg.BatchSize)
	case cfg.Offsets != OffsetsOff:
		return l, invalid("Offsets", "is set, but under leases there is no transaction to keep them in")
	case cfg.GiveUp != nil:
		return l, invalid("GiveUp", "is set, but under leases there is no transaction for a final attempt")
	}
	return l, nil
}
