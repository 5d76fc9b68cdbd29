package discovery

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// Dial returns a client of the service at an endpoint. It need not connect. [Store] calls it again
// when the endpoint changes; a client that is no longer used is not closed, because calls may still
// be in flight.
type Dial func(e Endpoint) (lease.Store, error)

// Store is a [lease.Store] on the service that a [Finder] finds. Each call goes to the current
// service; one that does not answer is dropped, and the next call finds another, or the same again.
// It fails closed: without a service every call returns an unavailable error, whether or not one is
// Required.
//
// Services of one bus and group must share their store: after a change a lease that one of them has
// granted is marked at another. It is safe for concurrent use.
type Store struct {
	finder *Finder
	dial   Dial

	mu     sync.Mutex
	url    string // of client's service
	client lease.Store
}

var _ lease.Store = (*Store)(nil)

// NewStore returns a store. It sends nothing until it is used. The error names what is missing.
func NewStore(f *Finder, dial Dial) (*Store, error) {
	switch {
	case f == nil:
		return nil, invalid("finder", "is required")
	case dial == nil:
		return nil, invalid("dial", "is required")
	}
	return &Store{finder: f, dial: dial}, nil
}

// clientOf returns the client for an endpoint.
func (s *Store) clientOf(e Endpoint) (lease.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil && s.url == e.URL {
		return s.client, nil
	}
	client, err := s.dial(e)
	if err != nil {
		return nil, fmt.Errorf("client of the inbox service %s: %w", e.Name, err)
	}
	s.client, s.url = client, e.URL
	return client, nil
}

// at makes a call to the current service, and drops the service if it does not answer. A request to
// wait is an answer.
func at[T any](ctx context.Context, s *Store, call func(lease.Store) (T, error)) (v T, err error) {
	d, err := s.finder.Find(ctx)
	if err != nil {
		return v, err
	}
	if d.Endpoint.URL == "" {
		return v, d.missing()
	}
	client, err := s.clientOf(d.Endpoint)
	if err != nil {
		return v, err
	}
	v, err = call(client)
	if _, waits := waybill.AfterOf(err); waybill.IsUnavailable(err) && !waits && ctx.Err() == nil {
		s.finder.Invalidate(d.Endpoint.URL)
	}
	return v, err
}

// TryBegin implements [lease.Store].
func (s *Store) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	return at(ctx, s, func(c lease.Store) (lease.Answer, error) { return c.TryBegin(ctx, req) })
}

// RenewLease implements [lease.Store].
func (s *Store) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	return at(ctx, s, func(c lease.Store) (lease.Answer, error) { return c.RenewLease(ctx, l, ttl) })
}

// MarkProcessed implements [lease.Store].
func (s *Store) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	return at(ctx, s, func(c lease.Store) (lease.Status, error) { return c.MarkProcessed(ctx, l) })
}

// ReleaseLease implements [lease.Store].
func (s *Store) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	return at(ctx, s, func(c lease.Store) (lease.Status, error) { return c.ReleaseLease(ctx, l, r) })
}

// ReadLease implements [lease.Store].
func (s *Store) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	return at(ctx, s, func(c lease.Store) (lease.Record, error) { return c.ReadLease(ctx, key) })
}

// PurgeLeases implements [lease.Store].
func (s *Store) PurgeLeases(ctx context.Context, retention time.Duration, limit int) (int, error) {
	return at(ctx, s, func(c lease.Store) (int, error) { return c.PurgeLeases(ctx, retention, limit) })
}
