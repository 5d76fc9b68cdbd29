package promobserve

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/inspect"
)

// slowStore answers after a while, or when ctx ends.
type slowStore struct {
	takes time.Duration
	err   error
	asked int
}

func (s *slowStore) OutboxBacklog(ctx context.Context) ([]inspect.Stats, error) {
	s.asked++
	select {
	case <-time.After(s.takes):
		return []inspect.Stats{{Topic: "orders", Status: inspect.Pending, Count: int64(s.asked)}}, s.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// scrape returns how many metrics a scrape shows and how long it took.
func scrape(c *Collector) (int, time.Duration) {
	began := time.Now()
	ch := make(chan prometheus.Metric, 100)
	c.Collect(ch)
	return len(ch), time.Since(began)
}

const (
	nothing = 1 // the counter of errors
	figures = 4 // and two figures of the one topic, with their age
)

func TestCollector(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		store slowStore
		run   func(t *testing.T, c *Collector, s *slowStore)
	}{
		{"answers are good for a while", slowStore{}, func(t *testing.T, c *Collector, s *slowStore) {
			for range 3 {
				wantScrape(t, c, figures, 0)
			}
			pass(5 * time.Second)
			wantScrape(t, c, figures, 0)
			if s.asked != 2 {
				t.Errorf("the store was asked %d times, want 2", s.asked)
			}
		}},
		{"a slow store holds up no scrape", slowStore{takes: 2 * time.Second}, func(t *testing.T, c *Collector, s *slowStore) {
			wantScrape(t, c, nothing, scrapePatience)
			wantScrape(t, c, nothing, scrapePatience) // and is asked for one thing at a time
			pass(2 * time.Second)
			wantScrape(t, c, figures, 0)
			pass(38 * time.Second)
			wantScrape(t, c, figures, 0)
			if s.asked != 1 {
				t.Errorf("the store was asked %d times within twenty times of what it takes, want once", s.asked)
			}
		}},
		{"an answer does not come", slowStore{takes: time.Hour}, func(t *testing.T, c *Collector, s *slowStore) {
			wantScrape(t, c, nothing, scrapePatience)
			pass(11 * time.Second)
			wantScrape(t, c, nothing, 0)
		}},
		{"old answers are left out", slowStore{}, func(t *testing.T, c *Collector, s *slowStore) {
			wantScrape(t, c, figures, 0)
			s.err = errors.New("gone")
			pass(30 * time.Second)
			wantScrape(t, c, figures, 0)
			pass(36 * time.Second)
			wantScrape(t, c, nothing, 0)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := tt.store
				tt.run(t, NewCollector(CollectorConfig{Backlog: &s}), &s)
			})
		})
	}
}

// pass lets the time of the bubble pass.
func pass(d time.Duration) { <-time.After(d) }

func wantScrape(t *testing.T, c *Collector, metrics int, took time.Duration) {
	t.Helper()
	if n, d := scrape(c); n != metrics || d != took {
		t.Errorf("a scrape shows %d metrics after %v, want %d after %v", n, d, metrics, took)
	}
}
