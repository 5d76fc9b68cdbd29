package inboxhttp

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/span"
)

// The JSON of requests and answers. openapi.json describes the same; a test compares them.

type beginBody struct {
	Key          string  `json:"key"`
	Owner        string  `json:"owner,omitempty"`
	LeaseSeconds float64 `json:"leaseSeconds,omitempty"`
	MaxAttempts  int     `json:"maxAttempts,omitempty"`
	RequestID    string  `json:"requestId,omitempty"`
	PayloadHash  string  `json:"payloadHash,omitempty"`
}

type renewBody struct {
	Key          string  `json:"key"`
	LeaseID      string  `json:"leaseId"`
	LeaseSeconds float64 `json:"leaseSeconds,omitempty"`
}

type markBody struct {
	Key     string `json:"key"`
	LeaseID string `json:"leaseId"`
}

type releaseBody struct {
	Key         string  `json:"key"`
	LeaseID     string  `json:"leaseId"`
	Uncounted   bool    `json:"uncounted,omitempty"`
	WaitSeconds float64 `json:"waitSeconds,omitempty"`
}

type batchBody[T any] struct {
	Items batchItems[T] `json:"items"`
}

// batchItems are read one by one, so that a body with many empty items takes no more memory than
// the limit of a batch.
type batchItems[T any] []T

// UnmarshalJSON implements [json.Unmarshaler].
func (b *batchItems[T]) UnmarshalJSON(text []byte) error {
	*b = nil
	if string(text) == "null" {
		return nil
	}
	items := json.NewDecoder(bytes.NewReader(text))
	if start, err := items.Token(); err != nil || start != json.Delim('[') {
		return refusef(http.StatusBadRequest, "items is not of the type that it must be")
	}
	for items.More() {
		if len(*b) == lease.MaxBatch {
			return refusef(http.StatusRequestEntityTooLarge, "the batch has more than %d items", lease.MaxBatch)
		}
		var item T
		if err := items.Decode(&item); err != nil {
			return err
		}
		*b = append(*b, item)
	}
	return nil
}

// leaseAnswer is the answer to try-begin and renew.
type leaseAnswer struct {
	Status       lease.Status `json:"status"`
	LeaseID      string       `json:"leaseId,omitempty"`
	Token        int64        `json:"token,omitempty"`
	Attempts     int          `json:"attempts"`
	ExpiresAt    *time.Time   `json:"expiresAt,omitempty"`
	RemainingMs  int64        `json:"remainingMs,omitempty"`
	RetryAfterMs int64        `json:"retryAfterMs,omitempty"`
	Conflict     bool         `json:"conflict,omitempty"`
}

// statusAnswer is the answer to mark-processed and release.
type statusAnswer struct {
	Status lease.Status `json:"status"`
}

type recordAnswer struct {
	Status      lease.Status `json:"status"`
	Owner       string       `json:"owner,omitempty"`
	Token       int64        `json:"token,omitempty"`
	Attempts    int          `json:"attempts"`
	FirstSeen   *time.Time   `json:"firstSeen,omitempty"`
	LastSeen    *time.Time   `json:"lastSeen,omitempty"`
	LeaseUntil  *time.Time   `json:"leaseUntil,omitempty"`
	DueAt       *time.Time   `json:"dueAt,omitempty"`
	PayloadHash string       `json:"payloadHash,omitempty"`
}

// maxRetryAfter is the longest wait that is proposed for a busy key: its holder may release it long
// before the lease ends.
const maxRetryAfter = 5 * time.Second

func leaseAnswerOf(a lease.Answer) leaseAnswer {
	answer := leaseAnswer{
		Status: a.Status, LeaseID: a.LeaseID, Token: a.Token, Attempts: a.Attempts,
		ExpiresAt: moment(a.ExpiresAt), RemainingMs: a.Remaining.Milliseconds(), Conflict: a.Conflict,
	}
	if a.Status == lease.Busy {
		answer.RetryAfterMs = max(1, min(a.Remaining, maxRetryAfter).Milliseconds())
	}
	return answer
}

// lease returns the answer as a [lease.Answer]. The time passed since the request is subtracted
// from Remaining.
func (a *leaseAnswer) lease(passed time.Duration) lease.Answer {
	return lease.Answer{
		Status: a.Status, LeaseID: a.LeaseID, Token: a.Token, Attempts: a.Attempts,
		ExpiresAt: timeOf(a.ExpiresAt), Remaining: max(0, span.Of(a.RemainingMs, time.Millisecond)-passed),
		Conflict: a.Conflict,
	}
}

func recordAnswerOf(r lease.Record) recordAnswer {
	return recordAnswer{
		Status: r.Status, Owner: r.Owner, Token: r.Token, Attempts: r.Attempts,
		FirstSeen: moment(r.FirstSeen), LastSeen: moment(r.LastSeen), LeaseUntil: moment(r.LeaseUntil),
		DueAt: moment(r.DueAt), PayloadHash: r.PayloadHash,
	}
}

func (a *recordAnswer) record() lease.Record {
	return lease.Record{
		Status: a.Status, Owner: a.Owner, Token: a.Token, Attempts: a.Attempts,
		FirstSeen: timeOf(a.FirstSeen), LastSeen: timeOf(a.LastSeen), LeaseUntil: timeOf(a.LeaseUntil),
		DueAt: timeOf(a.DueAt), PayloadHash: a.PayloadHash,
	}
}

// moment is a time in an answer, left out if it is zero.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	return &t
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// ttl returns the duration of a lease for the requested seconds; 0 stands for none requested.
func (c *Config) ttl(seconds float64) (time.Duration, error) {
	switch {
	case seconds < 0:
		return 0, invalid("leaseSeconds", "is negative")
	case seconds == 0:
		return c.DefaultLease, nil
	case seconds >= c.MaxLease.Seconds():
		return c.MaxLease, nil
	}
	return max(c.MinLease, durationOf(seconds)), nil
}

// release returns the Release of a body. A wait is not cut to the limits of leases: the caller
// relies on it.
func (b *releaseBody) release() (lease.Release, error) {
	limit := lease.MaxTTL.Seconds()
	if b.WaitSeconds < 0 || b.WaitSeconds > limit {
		return lease.Release{}, invalid("waitSeconds", "is %g, the range is 0 to %g", b.WaitSeconds, limit)
	}
	return lease.Release{Uncounted: b.Uncounted, Wait: durationOf(b.WaitSeconds)}, nil
}

func durationOf(seconds float64) time.Duration {
	return span.Of(math.Round(seconds*float64(time.Second)), 1)
}
