package inboxhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
)

// ClientConfig configures a [Client].
type ClientConfig struct {
	// URL is the base URL of the service, such as https://inbox.internal:8080; its path is prefixed to
	// the service's paths. It must not contain a user or a password. Required.
	URL string

	// Token is the secret that is sent as a bearer token. Optional.
	Token string

	// Timeout is how long a call may take, including all attempts. Optional; the default is 5 s.
	Timeout time.Duration

	// MaxRetries is how often a request is repeated that was not answered, or answered with a status of
	// 500 or above. Optional; the default is 2. [waybill.NoRetries] repeats nothing.
	MaxRetries int

	// HTTPClient sends the requests; its timeout and redirect policy are ignored. Optional; the default
	// has separate connections, up to 100 idle ones.
	HTTPClient *http.Client
}

const (
	defaultTimeout    = 5 * time.Second
	defaultMaxRetries = 2
	maxIdleConns      = 100
)

// Client is a lease store that calls a [Server]. It fails closed: without an answer it returns an
// error, never a lease. Its errors are those of [lease.Store]: an [*waybill.InvalidError] if the
// server refuses the request as invalid (400, 413); one with a [waybill.RetryAfter] if there are
// too many requests (429); and unavailable for everything else, including a refused token (401,
// 403), because a wrong setting must not dead-letter messages.
//
// A request that was not answered is repeated. Renewing, marking and releasing can be repeated
// safely. So can TryBegin: each request for a key has an id, generated here unless the caller sets
// one, so that a repetition gets the lease of a lost answer. If no attempt is answered the key may
// stay leased until that lease ends. A caller that has set the id can ask once more, or release the
// lease.
//
// The server may change the requested duration of a lease; the answer says how long it lasts.
// ExpiresAt is by the clock of the server's store; the time that the request took is subtracted
// from Remaining. A server of an older version, which knows neither waits nor payloads, releases a
// key without its wait and reports no conflict: update the servers first.
//
// It is safe for concurrent use.
type Client struct {
	cfg  ClientConfig
	base string
	http *http.Client
}

var _ lease.BatchStore = (*Client)(nil)

// NewClient returns a client. It sends nothing until it is used.
func NewClient(cfg ClientConfig) (*Client, error) {
	setDefault(&cfg.Timeout, defaultTimeout)
	setDefault(&cfg.MaxRetries, defaultMaxRetries)
	u, err := url.Parse(cfg.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return nil, invalid("ClientConfig.URL", "is not http://host:port or https://host:port")
	case u.User != nil:
		return nil, invalid("ClientConfig.URL", "holds a user; give a Token")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, invalid("ClientConfig.URL", "holds a query or a fragment")
	case cfg.Timeout < 0:
		return nil, invalid("ClientConfig.Timeout", "is %v; it must not be negative", cfg.Timeout)
	case cfg.MaxRetries < 0 && cfg.MaxRetries != waybill.NoRetries:
		return nil, invalid("ClientConfig.MaxRetries", "is %d; it must not be negative", cfg.MaxRetries)
	}
	return &Client{cfg: cfg, base: strings.TrimSuffix(cfg.URL, "/") + inboxPath, http: httpClient(cfg.HTTPClient)}, nil
}

// httpClient returns a copy of c without timeout and redirects: a token must not be sent to a
// redirect's target.
func httpClient(c *http.Client) *http.Client {
	own := http.Client{}
	if c != nil {
		own = *c
	} else {
		own.Transport = &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
			MaxIdleConns: maxIdleConns, MaxIdleConnsPerHost: maxIdleConns, IdleConnTimeout: 90 * time.Second,
		}
	}
	own.Timeout = 0
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// TryBegin implements [lease.Store].
func (c *Client) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	if err := req.Validate(); err != nil {
		return lease.Answer{}, err
	}
	began := time.Now()
	answer, err := ask[leaseAnswer](ctx, c, http.MethodPost, "try-begin", beginBodyOf(req))
	if err != nil {
		return lease.Answer{}, err
	}
	return answer.lease(time.Since(began)), known(answer.Status, beginStatuses)
}

func beginBodyOf(r lease.Request) beginBody {
	return beginBody{
		Key: r.Key, Owner: r.Owner, LeaseSeconds: r.TTL.Seconds(), MaxAttempts: r.MaxAttempts, RequestID: r.LeaseID(), PayloadHash: r.PayloadHash,
	}
}

// RenewLease implements [lease.Store].
func (c *Client) RenewLease(ctx context.Context, l lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := validateLease(l); err != nil {
		return lease.Answer{}, err
	}
	if err := lease.ValidateTTL(ttl); err != nil {
		return lease.Answer{}, err
	}
	began := time.Now()
	answer, err := ask[leaseAnswer](ctx, c, http.MethodPost, "renew", renewBody{Key: l.Key, LeaseID: l.ID, LeaseSeconds: ttl.Seconds()})
	if err != nil {
		return lease.Answer{}, err
	}
	return answer.lease(time.Since(began)), known(answer.Status, renewStatuses)
}

// validateLease refuses what a server would refuse.
func validateLease(l lease.Lease) error {
	return lease.ValidateKey(l.Key)
}

// MarkProcessed implements [lease.Store].
func (c *Client) MarkProcessed(ctx context.Context, l lease.Lease) (lease.Status, error) {
	if err := validateLease(l); err != nil {
		return "", err
	}
	answer, err := ask[statusAnswer](ctx, c, http.MethodPost, "mark-processed", markBody{Key: l.Key, LeaseID: l.ID})
	var unmarked *unmarkedError
	switch {
	case errors.As(err, &unmarked):
		answer.Status = unmarked.status
	case err != nil:
		return "", err
	}
	return answer.Status, known(answer.Status, endStatuses)
}

// ReleaseLease implements [lease.Store].
func (c *Client) ReleaseLease(ctx context.Context, l lease.Lease, r lease.Release) (lease.Status, error) {
	if err := validateLease(l); err != nil {
		return "", err
	}
	if err := r.Validate(); err != nil {
		return "", err
	}
	body := releaseBody{Key: l.Key, LeaseID: l.ID, Uncounted: r.Uncounted, WaitSeconds: r.Wait.Seconds()}
	answer, err := ask[statusAnswer](ctx, c, http.MethodPost, "release", body)
	if err != nil {
		return "", err
	}
	return answer.Status, known(answer.Status, endStatuses)
}

// ReadLease implements [lease.Store].
func (c *Client) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Record{}, err
	}
	answer, err := ask[recordAnswer](ctx, c, http.MethodGet, url.PathEscape(key), nil)
	if err != nil {
		return lease.Record{}, err
	}
	return answer.record(), known(answer.Status, recordStatuses)
}

// PurgeLeases implements [lease.Store]. It removes nothing: the service cleans up its store.
func (c *Client) PurgeLeases(context.Context, time.Duration, int) (int, error) { return 0, nil }

// TryBeginAll implements [lease.BatchStore].
func (c *Client) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	keys, items := make([]string, len(reqs)), make([]beginBody, len(reqs))
	for i, r := range reqs {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		keys[i], items[i] = r.Key, beginBodyOf(r)
	}
	began := time.Now()
	list, err := askAll[leaseAnswer](ctx, c, "try-begin/batch", keys, items)
	if err != nil {
		return nil, err
	}
	passed := time.Since(began)
	answers := make([]lease.Answer, len(list))
	for i := range list {
		if err := known(list[i].Status, beginStatuses); err != nil {
			return nil, err
		}
		answers[i] = list[i].lease(passed)
	}
	return answers, nil
}

// MarkAllProcessed implements [lease.BatchStore].
func (c *Client) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	keys, items := make([]string, len(leases)), make([]markBody, len(leases))
	for i, l := range leases {
		if err := validateLease(l); err != nil {
			return nil, err
		}
		keys[i], items[i] = l.Key, markBody{Key: l.Key, LeaseID: l.ID}
	}
	list, err := askAll[statusAnswer](ctx, c, "mark-processed/batch", keys, items)
	if err != nil {
		return nil, err
	}
	statuses := make([]lease.Status, len(list))
	for i, answer := range list {
		if err := known(answer.Status, endStatuses); err != nil {
			return nil, err
		}
		statuses[i] = answer.Status
	}
	return statuses, nil
}

// askAll sends a batch and returns an answer for each of its items. It sends nothing for an empty batch.
func askAll[A, B any](ctx context.Context, c *Client, path string, keys []string, items []B) ([]A, error) {
	if err := lease.ValidateBatch(keys); err != nil || len(items) == 0 {
		return nil, err
	}
	answer, err := ask[batchBody[A]](ctx, c, http.MethodPost, path, batchBody[B]{items})
	if err != nil {
		return nil, err
	}
	if len(answer.Items) != len(items) {
		return nil, waybill.UnavailableError(fmt.Errorf("inbox service: %d answers to %d items", len(answer.Items), len(items)))
	}
	return answer.Items, nil
}

// ask sends a request, with retries, and returns the answer with status 200.
func ask[A any](ctx context.Context, c *Client, method, path string, body any) (answer A, err error) {
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			return answer, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	reply, err := c.exchange(ctx, method, c.base+path, text)
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(reply, &answer); err != nil {
		return answer, waybill.UnavailableError(fmt.Errorf("inbox service: the answer is not one of an inbox service: %w", err))
	}
	return answer, nil
}

// maxReply bounds an answer, which is less than 400 bytes for each of its items.
const maxReply = 4 << 20

func readReply(r *http.Response) ([]byte, error) {
	defer r.Body.Close()
	text, err := io.ReadAll(io.LimitReader(r.Body, maxReply))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return text, nil
}
