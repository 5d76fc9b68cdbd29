package idempotency

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill/inbox/lease"
)

// bus is the bus of HTTP requests in the keys of leases, where messages have the name of their broker.
const bus = "http"

// callTimeout is how long the stores may take: to look up a key, to store a response, or to release a
// key. The last two are done even if the client has disconnected.
const callTimeout = 10 * time.Second

// guard is a handler that runs the next one once per key.
type guard struct {
	leases    lease.Store
	responses Responses
	cfg       Config
	next      http.Handler
}

// request is a request with its hashed payload.
type request struct {
	*http.Request
	key     string // identifies it in the stores
	payload string // its hash
}

// ServeHTTP implements [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !slices.Contains(g.cfg.Methods, r.Method) {
		g.next.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(r.Header)
	if err == errMissing && g.cfg.AllowMissing {
		g.next.ServeHTTP(w, r)
		return
	}
	if err != nil {
		malformed(err).write(w)
		return
	}
	tenant := ""
	if !g.cfg.Shared {
		if tenant = g.cfg.Tenant(r); tenant == "" {
			g.next.ServeHTTP(w, r)
			return
		}
	}
	req, err := g.read(w, r, tenant, key)
	if err != nil {
		refuseBody(w, err)
		return
	}
	if err := g.serve(w, req); err != nil {
		if r.Context().Err() == nil { // else the client has disconnected
			g.cfg.Logger.ErrorContext(r.Context(), "a request was not run because its key cannot be looked up", "error", err)
		}
		unavailable().write(w)
	}
}

// read takes the body into memory and hashes the payload.
func (g *guard) read(w http.ResponseWriter, r *http.Request, tenant, key string) (request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(g.cfg.MaxBody)))
	if err != nil {
		return request{}, err
	}
	payload := sha256.New()
	fmt.Fprintf(payload, "%d:%s", len(r.URL.RawQuery), r.URL.RawQuery)
	payload.Write(body)
	r = r.WithContext(r.Context()) // a copy: the caller's keeps its body
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	name := lease.Key{Tenant: tenant, Bus: bus, Group: r.Method, Source: r.URL.EscapedPath(), Message: key}
	return request{Request: r, key: name.String(), payload: hex.EncodeToString(payload.Sum(nil))}, nil
}

func refuseBody(w http.ResponseWriter, err error) {
	var tooLong *http.MaxBytesError
	if errors.As(err, &tooLong) {
		unreadable(http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", tooLong.Limit)).write(w)
		return
	}
	unreadable(http.StatusBadRequest, "the body ended early").write(w)
}

// serve answers a request. After an error nothing was answered and the handler has not run.
func (g *guard) serve(w http.ResponseWriter, r request) error {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	if answered, err := g.answered(ctx, w, r); answered || err != nil {
		return err
	}
	asked := time.Now()
	ask := lease.Request{Key: r.key, Owner: r.owner(), TTL: g.cfg.LeaseTTL, RequestID: lease.NewID()}
	answer, err := g.leases.TryBegin(ctx, ask)
	switch {
	case err != nil:
		if ctx.Err() != nil { // maybe after the store has leased the key
			hold{guard: g, lease: lease.Lease{Key: r.key, ID: ask.RequestID}}.release(r.Context())
		}
		return err
	case answer.Status == lease.Busy:
		g.busy(ctx, w, r)
		return nil
	case answer.Status != lease.Acquired:
		return fmt.Errorf("idempotency: the lease store answered %s; others use the same keys", answer.Status)
	}
	h := hold{guard: g, lease: lease.Lease{Key: r.key, ID: answer.LeaseID, Token: answer.Token}, asked: asked}

	// The previous holder of the lease may have stored its response after the first lookup.
	if answered, err := g.answered(ctx, w, r); answered || err != nil {
		h.release(r.Context())
		return err
	}
	g.run(w, r, h)
	return nil
}

// owner identifies the request's payload in its lease, so that concurrent requests with the key can
// be compared with it.
func (r request) owner() string { return ownerPrefix + r.payload }

const ownerPrefix = bus + " payload "

// busy answers a request whose key is leased. The holder may have finished in the meantime, or be
// of a version that does not record the payload; then the payload counts as the same.
func (g *guard) busy(ctx context.Context, w http.ResponseWriter, r request) {
	holder, err := g.leases.ReadLease(ctx, r.key)
	if err == nil && holder.Status == lease.Busy && strings.HasPrefix(holder.Owner, ownerPrefix) && holder.Owner != r.owner() {
		conflict(g.cfg.ConflictStatus).write(w)
		return
	}
	inProgress().write(w)
}

// answered replays the response to the request if one is stored.
func (g *guard) answered(ctx context.Context, w http.ResponseWriter, r request) (bool, error) {
	data, found, err := g.responses.FindResponse(ctx, r.key)
	if err != nil || !found {
		return false, err
	}
	stored, err := decodeResponse(data)
	if err != nil {
		return false, err
	}
	if stored.Payload != r.payload {
		conflict(g.cfg.ConflictStatus).write(w)
	} else {
		stored.replay(w)
	}
	return true, nil
}

// run runs the handler under a lease. Its response is stored before it is sent, so that a client
// that has seen the response cannot make the handler run again. The lease of a stored response is
// left to expire: the response is looked up first.
func (g *guard) run(w http.ResponseWriter, r request, h hold) {
	rec := newRecorder(w, g.cfg.MaxResponse)
	returned := false
	defer func() {
		if !returned { // the handler panicked
			h.release(r.Context())
		}
	}()
	h.keep(r.Context(), func(ctx context.Context) { g.next.ServeHTTP(rec, r.WithContext(ctx)) })
	returned = true
	rec.WriteHeader(http.StatusOK)
	if rec.whole() && g.cfg.Keep(rec.status) {
		g.save(r, rec)
	} else {
		h.release(r.Context())
	}
	rec.send()
}

// save stores a response. If that fails the response is still sent, because it is correct; the
// lease blocks repetitions for a while.
func (g *guard) save(r request, rec *recorder) {
	ctx, cancel := settling(r.Context())
	defer cancel()
	data, err := rec.response(r.payload, g.cfg.Headers).encode()
	if err == nil {
		err = g.responses.SaveResponse(ctx, r.key, data, g.cfg.TTL)
	}
	if err != nil {
		g.cfg.Logger.ErrorContext(ctx, "a response was sent but not stored; a repetition will run the handler again", "error", err)
	}
}

// settling returns a context for what must be done even if the client has disconnected.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
}
