package inboxhttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/inbox/lease"
)

// operation is an operation of the API.
type operation struct {
	name string // in logs, metrics and traces
	do   func(s *Server, c *call) (any, error)
}

// posts are the operations by what follows /v1/inbox/ in the path of a POST.
var posts = map[string]operation{
	"try-begin":            {"try-begin", (*Server).tryBegin},
	"renew":                {"renew", (*Server).renew},
	"mark-processed":       {"mark-processed", (*Server).markProcessed},
	"release":              {"release", (*Server).release},
	"try-begin/batch":      {"try-begin batch", (*Server).tryBeginAll},
	"mark-processed/batch": {"mark-processed batch", (*Server).markAllProcessed},
}

var readRecord = operation{"read", (*Server).read}

// call is one request while it is served.
type call struct {
	ctx    context.Context // for the store: it does not end when the client disconnects
	client context.Context
	from   *caller
	body   []byte // of a POST
	key    string // of a GET

	status string // of the answer, for the observer
	count  int    // of the keys
}

// mayAsk refuses keys that the caller may not access.
func (c *call) mayAsk(key string) error {
	if !c.from.mayAsk(key) {
		return refusef(http.StatusForbidden, "the token is limited to tenants, buses or groups, and the key is not of them")
	}
	return nil
}

// answered records the status of an answer.
func (c *call) answered(status lease.Status) { c.status, c.count = string(status), 1 }

// answeredAll records an answer to a batch.
func (c *call) answeredAll(n int) { c.status, c.count = strconv.Itoa(http.StatusOK), n }

func (s *Server) tryBegin(c *call) (any, error) {
	body, err := decode[beginBody](c.body)
	if err != nil {
		return nil, err
	}
	req, err := s.leaseRequest(c, &body)
	if err != nil {
		return nil, err
	}
	a, err := s.store.TryBegin(c.ctx, req)
	if err != nil {
		return nil, err
	}
	s.takeBack(c, req, a)
	c.answered(a.Status)
	return leaseAnswerOf(a), nil
}

func (s *Server) leaseRequest(c *call, body *beginBody) (lease.Request, error) {
	ttl, err := s.cfg.ttl(body.LeaseSeconds)
	if err != nil {
		return lease.Request{}, err
	}
	req := lease.Request{
		Key: body.Key, Owner: body.Owner, TTL: ttl, MaxAttempts: body.MaxAttempts, RequestID: body.RequestID, PayloadHash: body.PayloadHash,
	}
	if err := req.Validate(); err != nil {
		return lease.Request{}, err
	}
	return req, c.mayAsk(req.Key)
}

// takeBack releases a key that was acquired for a client that has disconnected since: the lease is
// known to no one, and the next request would have to wait for its end. But a client with a request
// id may have repeated its request, here or elsewhere.
func (s *Server) takeBack(c *call, req lease.Request, a lease.Answer) {
	if a.Status == lease.Acquired && req.RequestID == "" && c.client.Err() != nil {
		// If it fails the key stays leased until the lease ends.
		_, _ = s.store.ReleaseLease(c.ctx, lease.Lease{Key: req.Key, ID: a.LeaseID, Token: a.Token}, lease.Release{Uncounted: true})
	}
}

func (s *Server) renew(c *call) (any, error) {
	body, err := decode[renewBody](c.body)
	if err != nil {
		return nil, err
	}
	ttl, err := s.cfg.ttl(body.LeaseSeconds)
	if err != nil {
		return nil, err
	}
	l, err := c.lease(body.Key, body.LeaseID)
	if err != nil {
		return nil, err
	}
	a, err := s.store.RenewLease(c.ctx, l, ttl)
	if err != nil {
		return nil, err
	}
	c.answered(a.Status)
	return leaseAnswerOf(a), nil
}

// lease checks the key and id of a lease.
func (c *call) lease(key, id string) (lease.Lease, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Lease{}, err
	}
	if id == "" || len(id) > maxLeaseIDLen {
		return lease.Lease{}, invalid("leaseId", "has %d bytes, the range is 1 to %d", len(id), maxLeaseIDLen)
	}
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return lease.Lease{}, invalid("leaseId", "holds something else than visible ASCII characters")
	}
	return lease.Lease{Key: key, ID: id}, c.mayAsk(key)
}

// maxLeaseIDLen is far above the length of ids that stores generate.
const maxLeaseIDLen = 255

func (s *Server) markProcessed(c *call) (any, error) {
	body, err := decode[markBody](c.body)
	if err != nil {
		return nil, err
	}
	l, err := c.lease(body.Key, body.LeaseID)
	if err != nil {
		return nil, err
	}
	status, err := s.store.MarkProcessed(c.ctx, l)
	if err != nil {
		return nil, err
	}
	c.answered(status)
	return statusAnswer{status}, unmarked(status)
}

// unmarked refuses a mark without effect. A client that checks only the code would otherwise take
// it for done.
func unmarked(status lease.Status) error {
	switch status {
	case lease.Processed:
		return nil
	case lease.Unknown:
		return &refusal{code: http.StatusNotFound, detail: "the key is unknown; it was not marked", keyStatus: status}
	case lease.Released:
		return &refusal{code: http.StatusConflict, detail: "the lease has been released; the key was not marked", keyStatus: status}
	}
	return &refusal{code: http.StatusConflict, detail: "somebody else has begun the key since; it was not marked", keyStatus: status}
}

func (s *Server) release(c *call) (any, error) {
	body, err := decode[releaseBody](c.body)
	if err != nil {
		return nil, err
	}
	l, err := c.lease(body.Key, body.LeaseID)
	if err != nil {
		return nil, err
	}
	how, err := body.release()
	if err != nil {
		return nil, err
	}
	status, err := s.store.ReleaseLease(c.ctx, l, how)
	c.answered(status)
	return statusAnswer{status}, err
}

func (s *Server) read(c *call) (any, error) {
	if err := lease.ValidateKey(c.key); err != nil {
		return nil, err
	}
	if err := c.mayAsk(c.key); err != nil {
		return nil, err
	}
	record, err := s.store.ReadLease(c.ctx, c.key)
	c.answered(record.Status)
	return recordAnswerOf(record), err
}

func (s *Server) tryBeginAll(c *call) (any, error) {
	reqs, err := items(c, func(b *beginBody) (lease.Request, string, error) {
		req, err := s.leaseRequest(c, b)
		return req, req.Key, err
	})
	if err != nil {
		return nil, err
	}
	answers, err := s.batches.TryBeginAll(c.ctx, reqs)
	if err != nil {
		return nil, err
	}
	list := make([]leaseAnswer, len(answers))
	for i, a := range answers {
		s.takeBack(c, reqs[i], a)
		list[i] = leaseAnswerOf(a)
	}
	c.answeredAll(len(list))
	return batchBody[leaseAnswer]{list}, nil
}

func (s *Server) markAllProcessed(c *call) (any, error) {
	leases, err := items(c, func(b *markBody) (lease.Lease, string, error) {
		l, err := c.lease(b.Key, b.LeaseID)
		return l, b.Key, err
	})
	if err != nil {
		return nil, err
	}
	statuses, err := s.batches.MarkAllProcessed(c.ctx, leases)
	if err != nil {
		return nil, err
	}
	list := make([]statusAnswer, len(statuses))
	for i, status := range statuses {
		list[i] = statusAnswer{status}
	}
	c.answeredAll(len(list))
	return batchBody[statusAnswer]{list}, nil
}

// items reads a batch: it converts each item by one, which also returns its key. The first refused
// item refuses the batch.
func items[B, T any](c *call, one func(*B) (T, string, error)) ([]T, error) {
	body, err := decode[batchBody[B]](c.body)
	if err != nil {
		return nil, err
	}
	list, keys := make([]T, len(body.Items)), make([]string, len(body.Items))
	for i := range body.Items {
		if list[i], keys[i], err = one(&body.Items[i]); err != nil {
			refused := refusalOf(err)
			return nil, refusef(refused.code, "items[%d]: %s", i, refused.detail)
		}
	}
	c.from.bucket.spend(len(list) - 1)
	return list, lease.ValidateBatch(keys)
}

// oneByOne serves batches from a store without batches.
type oneByOne struct{ lease.Store }

var _ lease.BatchStore = oneByOne{}

// batchesOf returns the store itself if it serves batches.
func batchesOf(s lease.Store) lease.BatchStore {
	if b, ok := s.(lease.BatchStore); ok {
		return b
	}
	return oneByOne{s}
}

// TryBeginAll implements [lease.BatchStore].
func (s oneByOne) TryBeginAll(ctx context.Context, reqs []lease.Request) ([]lease.Answer, error) {
	return each(reqs, func(r lease.Request) (lease.Answer, error) { return s.TryBegin(ctx, r) })
}

// MarkAllProcessed implements [lease.BatchStore].
func (s oneByOne) MarkAllProcessed(ctx context.Context, leases []lease.Lease) ([]lease.Status, error) {
	return each(leases, func(l lease.Lease) (lease.Status, error) { return s.MarkProcessed(ctx, l) })
}

func each[A, B any](list []A, do func(A) (B, error)) ([]B, error) {
	answers := make([]B, len(list))
	for i, item := range list {
		var err error
		if answers[i], err = do(item); err != nil {
			return nil, err
		}
	}
	return answers, nil
}
