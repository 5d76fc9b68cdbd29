package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/inboxhttp"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/store/storetest"
)

// httpClient keeps no connections: httptest closes idle ones of the default client, also those that
// another test is about to use.
var httpClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// inboxService is a server of a store, asked as any program would.
type inboxService struct {
	*testing.T
	url     string
	store   lease.BatchStore
	advance func(time.Duration)
}

// onInboxStores runs a story on the inbox service over each store.
func onInboxStores(t *testing.T, story func(s *inboxService)) {
	t.Parallel()
	for name, h := range inboxStores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := h.Open(t)
			handler, err := inboxhttp.NewServer(store, inboxhttp.Config{Observer: observe.Observers(), StoreTimeout: time.Minute})
			must(t, err)
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			story(&inboxService{T: t, url: server.URL, store: store, advance: func(d time.Duration) { h.Advance(t, store, d) }})
		})
	}
}

// reply is any answer of the service.
type reply struct {
	Code        int `json:"-"`
	Status      string
	LeaseID     string
	Token       int
	Attempts    int
	ExpiresAt   time.Time
	RemainingMs int
	FirstSeen   time.Time
	LastSeen    time.Time
	LeaseUntil  *time.Time
}

// ask sends a request, which must be answered with the status that is wanted, and with code 200 unless
// it is a mark without effect.
func (s *inboxService) ask(want lease.Status, operation string, body map[string]any) reply {
	s.Helper()
	r := s.post(operation, body)
	if r.Status != string(want) {
		s.Errorf("%s is answered with %s, want %s", operation, r.Status, want)
	}
	return r
}

func (s *inboxService) post(operation string, body map[string]any) reply {
	s.Helper()
	text, err := json.Marshal(body)
	s.check(err)
	answer, err := httpClient.Post(s.url+"/v1/inbox/"+operation, "application/json", bytes.NewReader(text))
	return s.decoded(answer, err)
}

func (s *inboxService) get(key string) reply {
	s.Helper()
	answer, err := httpClient.Get(s.url + "/v1/inbox/" + url.PathEscape(key))
	return s.decoded(answer, err)
}

func (s *inboxService) decoded(answer *http.Response, err error) (r reply) {
	s.Helper()
	if s.check(err); err != nil {
		return r
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound || answer.StatusCode == http.StatusConflict {
		var problem struct{ KeyStatus string }
		s.check(json.NewDecoder(answer.Body).Decode(&problem))
		return reply{Code: answer.StatusCode, Status: problem.KeyStatus}
	}
	if answer.StatusCode != http.StatusOK {
		s.Errorf("the code is %d, want 200", answer.StatusCode)
	}
	s.check(json.NewDecoder(answer.Body).Decode(&r))
	r.Code = answer.StatusCode
	return r
}

func (s *inboxService) check(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

func of(key string) map[string]any { return map[string]any{"key": key} }

func under(key string, held reply) map[string]any {
	return map[string]any{"key": key, "leaseId": held.LeaseID}
}

// TestInboxService_Mark (AS-41): acquired, busy for others, marked, processed for all.
func TestInboxService_Mark(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		held := s.ask(lease.Acquired, "try-begin", of("k"))
		if held.LeaseID == "" || held.Token != 1 || held.Attempts != 1 || held.ExpiresAt.IsZero() {
			s.Errorf("the lease is %+v", held)
		}
		busy := s.ask(lease.Busy, "try-begin", of("k"))
		if busy.LeaseID != "" || !busy.ExpiresAt.Equal(held.ExpiresAt) {
			s.Errorf("busy is %+v, with %+v held", busy, held)
		}
		s.ask(lease.Processed, "mark-processed", under("k", held))
		s.ask(lease.Processed, "mark-processed", under("k", held))
		s.ask(lease.Processed, "try-begin", of("k"))
	})
}

// TestInboxService_Race (AS-42): of 200 that ask at once for one key, one gets it.
func TestInboxService_Race(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		var mu sync.Mutex
		got := make(map[string]int)
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				r := s.post("try-begin", of("k"))
				mu.Lock()
				defer mu.Unlock()
				got[r.Status]++
			})
		}
		all.Wait()
		if got["Acquired"] != 1 || got["Busy"] != 199 {
			s.Errorf("answered is %v, want 1 Acquired and 199 Busy", got)
		}
	})
}

// TestInboxService_TakeOver (AS-43): a lease that has run out is taken over, and its holder changes nothing
// from then on; until then it can still mark the key.
func TestInboxService_TakeOver(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		old, late := s.ask(lease.Acquired, "try-begin", of("k")), s.ask(lease.Acquired, "try-begin", of("late"))
		s.advance(61 * time.Second)
		next := s.ask(lease.Acquired, "try-begin", of("k"))
		if next.LeaseID == old.LeaseID || next.Attempts != 2 || next.Token != 2 {
			s.Errorf("the next lease is %+v after %+v", next, old)
		}
		before := s.get("k")
		if r := s.ask(lease.Lost, "mark-processed", under("k", old)); r.Code != http.StatusConflict {
			s.Errorf("a mark under a lost lease is answered with %d, want 409", r.Code)
		}
		s.ask(lease.Lost, "renew", under("k", old))
		s.ask(lease.Lost, "release", under("k", old))
		if after := s.get("k"); !after.LastSeen.Equal(before.LastSeen) || !after.LeaseUntil.Equal(*before.LeaseUntil) || after.Attempts != 2 {
			s.Errorf("the record was %+v and is %+v", before, after)
		}
		s.ask(lease.Processed, "mark-processed", under("late", late))
	})
}

// TestInboxService_Release (AS-44): what is released can be begun at once; a wrong lease releases nothing,
// and nothing that is processed is taken back.
func TestInboxService_Release(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		first := s.ask(lease.Acquired, "try-begin", of("k"))
		s.ask(lease.Lost, "release", map[string]any{"key": "k", "leaseId": "another"})
		s.ask(lease.Busy, "try-begin", of("k"))
		s.ask(lease.Released, "release", map[string]any{"key": "k", "leaseId": first.LeaseID, "uncounted": true})
		s.ask(lease.Released, "release", under("k", first))
		second := s.ask(lease.Acquired, "try-begin", of("k"))
		if second.Attempts != 1 {
			s.Errorf("%d attempts count, want 1: the first did not", second.Attempts)
		}
		s.ask(lease.Released, "release", under("k", second))
		third := s.ask(lease.Acquired, "try-begin", of("k"))
		if third.Attempts != 2 {
			s.Errorf("%d attempts count, want 2", third.Attempts)
		}
		s.ask(lease.Processed, "mark-processed", under("k", third))
		s.ask(lease.Processed, "release", under("k", third))
		s.ask(lease.Processed, "try-begin", of("k"))
		s.ask(lease.Unknown, "release", map[string]any{"key": "never seen", "leaseId": "x"})
		if r := s.ask(lease.Unknown, "mark-processed", map[string]any{"key": "never seen", "leaseId": "x"}); r.Code != http.StatusNotFound {
			s.Errorf("a mark of what was never begun is answered with %d, want 404", r.Code)
		}
	})
}

// TestInboxService_Get (AS-45): what is known of a key, whatever characters it has.
func TestInboxService_Get(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		for _, key := range []string{"a:b:c", "a/b//c", "../k", "100%", "a%2Fb", "a b+c", "ключ-キー-🔑", "k?x#y&z", strings.Repeat("é", 256)} {
			if r := s.get(key); r.Status != "Unknown" || r.Attempts != 0 {
				s.Errorf("%q, never seen, is %+v", key, r)
			}
			held := s.ask(lease.Acquired, "try-begin", of(key))
			if r := s.get(key); r.Status != "Busy" || r.LeaseUntil == nil || !r.LeaseUntil.Equal(held.ExpiresAt) || r.Attempts != 1 {
				s.Errorf("%q, leased, is %+v", key, r)
			}
			s.ask(lease.Processed, "mark-processed", under(key, held))
			r := s.get(key)
			if r.Status != "Processed" || r.LeaseUntil != nil || r.Attempts != 1 || r.FirstSeen.IsZero() || r.LastSeen.Before(r.FirstSeen) {
				s.Errorf("%q, processed, is %+v", key, r)
			}
		}
	})
}

// TestInboxService_LeaseSeconds (AS-46): a lease lasts as long as was asked for, within 30 to 120 seconds.
func TestInboxService_LeaseSeconds(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		for key, want := range map[string]int{"null": 60_000, "5": 30_000, "45.5": 45_500, "9999": 120_000} {
			r := s.ask(lease.Acquired, "try-begin", map[string]any{"key": key, "leaseSeconds": json.RawMessage(key)})
			known := s.get(key)
			if r.RemainingMs > want || r.RemainingMs < want*3/4 || known.LastSeen.Add(time.Duration(want)*time.Millisecond).Sub(r.ExpiresAt).Abs() > 2*time.Millisecond {
				s.Errorf("leaseSeconds %s: %d ms remain until %v, want %d; acquired %v", key, r.RemainingMs, r.ExpiresAt, want, known.LastSeen)
			}
		}
	})
}

// TestInboxService_Retention (AS-47): a key is Processed for its retention, and Unknown after it; one that
// somebody has is never removed.
func TestInboxService_Retention(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		s.ask(lease.Processed, "mark-processed", under("k", s.ask(lease.Acquired, "try-begin", of("k"))))
		purge := func() {
			_, err := s.store.PurgeLeases(context.Background(), storetest.LeaseRetention, 100)
			s.check(err)
		}
		s.advance(storetest.LeaseRetention - 5*time.Minute)
		s.ask(lease.Acquired, "try-begin", of("held"))
		purge()
		if r := s.get("k"); r.Status != "Processed" {
			s.Errorf("the key is %+v before the end of its retention", r)
		}
		s.advance(5*time.Minute + time.Second)
		held := s.ask(lease.Acquired, "try-begin", of("held"))
		purge()
		if r := s.get("k"); r.Status != "Unknown" {
			s.Errorf("the key is %+v after the end of its retention", r)
		}
		s.ask(lease.Processed, "mark-processed", under("held", held))
	})
}

// TestInboxService_Renew (AS-50): a lease that is renewed in time is nobody else's for as long as a
// handler runs.
func TestInboxService_Renew(t *testing.T) {
	onInboxStores(t, func(s *inboxService) {
		held := s.ask(lease.Acquired, "try-begin", of("k"))
		for range 15 { // 5 minutes
			s.advance(20 * time.Second)
			s.ask(lease.Acquired, "renew", under("k", held))
			s.ask(lease.Busy, "try-begin", of("k"))
		}
		s.ask(lease.Processed, "mark-processed", under("k", held))
	})
}
