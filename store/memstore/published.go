package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/rows"
)

// PublishedAt returns when the message with this id was published, by the store's clock; the first
// time, if it was published several times. The error is [waybill.ErrNotFound] if it was not
// published within the time given.
func (s *Store) PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error) {
	list, err := s.archivedSince(ctx, s.now().Add(-within))
	if err != nil {
		return time.Time{}, err
	}
	i := slices.IndexFunc(list, func(a *rows.Archived) bool { return a.Message.ID == id })
	if i < 0 {
		return time.Time{}, waybill.ErrNotFound
	}
	return list[i].PublishedAt.UTC(), nil
}

// PublishedSince calls visit for the archived messages of these topics, and for those sent to
// destinations of these names, from since on by the store's clock, in the order of publishing. A
// message with several destinations is visited for each. An error of visit ends it and is
// returned.
func (s *Store) PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error {
	list, err := s.archivedSince(ctx, since)
	if err != nil {
		return err
	}
	for _, a := range list {
		if !slices.Contains(topics, a.Message.Address()) {
			continue
		}
		m := a.Message.Clone()
		if err := visit(&m); err != nil {
			return err
		}
	}
	return nil
}

// archivedSince returns what was published at since or later, oldest first.
func (s *Store) archivedSince(ctx context.Context, since time.Time) (list []*rows.Archived, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		list = sorted(s.data.archive, func(a *rows.Archived) bool { return !a.PublishedAt.Before(since) },
			func(a *rows.Archived) int64 { return a.Key.(int64) })
		return nil
	})
	return list, err
}
