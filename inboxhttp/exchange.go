package inboxhttp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/backoff"
	"github.com/waybill-go/waybill/internal/span"
)

// The possible answers to each request. The texts are those of openapi.json.
var (
	beginStatuses  = []lease.Status{lease.Acquired, lease.Busy, lease.Processed, lease.Exhausted}
	renewStatuses  = []lease.Status{lease.Acquired, lease.Lost, lease.Released, lease.Processed, lease.Unknown}
	endStatuses    = []lease.Status{lease.Processed, lease.Released, lease.Lost, lease.Unknown}
	recordStatuses = []lease.Status{lease.Busy, lease.Released, lease.Expired, lease.Processed, lease.Unknown}
)

// known returns an error unless status is one of statuses.
func known(status lease.Status, statuses []lease.Status) error {
	if slices.Contains(statuses, status) {
		return nil
	}
	return waybill.UnavailableError(fmt.Errorf("inbox service: the status %q is not one that can be answered here", status))
}

// repeat is the policy for repeated requests.
var repeat = waybill.RetryPolicy{BaseDelay: 50 * time.Millisecond, MaxDelay: time.Second}

// exchange sends a request until it is answered with a code below 500, within the retries and until
// ctx ends, and returns the body of the answer if the code is 200.
func (c *Client) exchange(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	for attempt := 1; ; attempt++ {
		reply, again, err := c.send(ctx, method, address, body)
		if err == nil || !again || attempt > c.cfg.MaxRetries {
			return reply, err
		}
		wait := time.NewTimer(backoff.Delay(repeat, attempt))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return nil, err
		}
	}
}

// send sends a request once. again reports whether it makes sense to repeat it.
func (c *Client) send(ctx context.Context, method, address string, body []byte) (reply []byte, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, false, waybill.UnavailableError(fmt.Errorf("inbox service: %w", err))
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", jsonType)
	}
	if c.cfg.Token != "" {
		r.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	answer, err := c.http.Do(r)
	if err == nil {
		reply, err = readReply(answer)
	}
	switch {
	case err != nil:
		return nil, ctx.Err() == nil, waybill.UnavailableError(fmt.Errorf("inbox service: %w", withoutKey(err)))
	case answer.StatusCode == http.StatusOK:
		return reply, false, nil
	}
	return nil, answer.StatusCode >= http.StatusInternalServerError, errorOf(answer, reply)
}

// withoutKey returns err without the URL, which may contain a key.
func withoutKey(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// errorOf returns the error for an answer with a code other than 200.
func errorOf(answer *http.Response, body []byte) error {
	var p problem
	_ = json.Unmarshal(body, &p) // a proxy in between may answer with anything
	if p.Detail == "" {
		p.Detail = http.StatusText(answer.StatusCode)
	}
	switch answer.StatusCode {
	case http.StatusNotFound, http.StatusConflict:
		if p.KeyStatus != "" {
			return &unmarkedError{p.KeyStatus}
		}
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return &waybill.InvalidError{Field: "request", Reason: "is refused by the inbox service: " + p.Detail}
	case http.StatusTooManyRequests:
		return waybill.RetryAfter(retryAfter(answer, p), fmt.Errorf("inbox service: %s", p.Detail))
	}
	return waybill.UnavailableError(fmt.Errorf("inbox service: %d: %s", answer.StatusCode, p.Detail))
}

// unmarkedError is the answer to mark-processed that the key was not marked, with its status.
type unmarkedError struct{ status lease.Status }

func (e *unmarkedError) Error() string { return "inbox service: the key is " + string(e.status) }

func retryAfter(answer *http.Response, p problem) time.Duration {
	if p.RetryAfterMs > 0 {
		return span.Of(p.RetryAfterMs, time.Millisecond)
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		return span.Of(seconds, time.Second)
	}
	return time.Second
}
