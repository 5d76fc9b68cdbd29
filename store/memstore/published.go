package memstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
)

// PublishedAt returns when the message with this id was published, by the store's clock; the
// first time, if it was several times. It is [waybill.ErrNotFound] if it was not within the time
// given.
func (s *Store) PublishedAt(ctx context.Context, id string, within time.Duration) (time.Time, error) {
	rows, err := s.archivedSince(ctx, s.now().Add(-within))
	if err != nil {
		return time.Time{}, err
	}
	i := slices.IndexFunc(rows, func(a archivedRow) bool { return a.message.ID == id })
	if i < 0 {
		return time.Time{}, waybill.ErrNotFound
	}
	return rows[i].publishedAt.UTC(), nil
}

// PublishedSince calls visit for what the archive has of these topics, and of messages sent to
// destinations of these names, from since on by the store's clock, in the order of publishing. A
// message with several destinations is visited for each. An error of visit ends it and is
// returned.
func (s *Store) PublishedSince(ctx context.Context, topics []string, since time.Time, visit func(*waybill.Message) error) error {
	rows, err := s.archivedSince(ctx, since)
	if err != nil {
		return err
	}
	for _, a := range rows {
		if !slices.Contains(topics, a.message.Address()) {
			continue
		}
		m := a.message.Clone()
		if err := visit(&m); err != nil {
			return err
		}
	}
	return nil
}

// archivedSince returns what was published at since or later, oldest first.
func (s *Store) archivedSince(ctx context.Context, since time.Time) (rows []archivedRow, err error) {
	err = s.inTx(ctx, func(*Tx) error {
		for _, n := range slices.Sorted(maps.Keys(s.data.archive)) {
			if a := s.data.archive[n]; !a.publishedAt.Before(since) {
				rows = append(rows, a)
			}
		}
		return nil
	})
	return rows, err
}
