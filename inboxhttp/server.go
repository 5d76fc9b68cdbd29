package inboxhttp

import (
	"bytes"
	"context"
	_ "embed" // openapi.json
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox/lease"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

// Server serves a lease store over HTTP. Its only state is the rate limits of programs, so any
// number of servers may serve one store. It is safe for concurrent use.
//
// TLS, timeouts and shutdown are configured on the [http.Server] that uses it: a ReadTimeout keeps
// slow clients from holding connections, and Shutdown lets requests in flight finish. The caller
// cleans up the store: see [lease.Store].PurgeLeases.
type Server struct {
	store   lease.Store
	batches lease.BatchStore
	cfg     Config
	callers atomic.Pointer[callers]
}

var _ http.Handler = (*Server)(nil)

// NewServer returns a server of a store.
func NewServer(store lease.Store, cfg Config) (*Server, error) {
	if store == nil {
		return nil, invalid("store", "is required")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	all, err := newCallers(cfg, callers{})
	if err != nil {
		return nil, err
	}
	s := &Server{store: store, batches: batchesOf(store), cfg: cfg}
	s.callers.Store(&all)
	return s, nil
}

// SetTokens replaces Config.Tokens, at least one by at least one: a program without a token is refused
// from now on. If it returns an error nothing has changed. It must not be called concurrently.
func (s *Server) SetTokens(tokens ...Token) error {
	before, cfg := s.callers.Load(), s.cfg
	if before.anonymous != nil || len(tokens) == 0 {
		return invalid("Tokens", "cannot be replaced by none, nor replace none")
	}
	cfg.Tokens = tokens
	all, err := newCallers(cfg, *before)
	if err == nil {
		s.callers.Store(&all)
	}
	return err
}

const inboxPath = "/v1/inbox/"

//go:embed openapi.json
var openAPI []byte

// ServeHTTP implements [http.Handler]. Paths are used as they were sent: a key may contain slashes
// and dots, which a ServeMux would clean.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if rest, ok := strings.CutPrefix(path, inboxPath); ok {
		s.serveInbox(w, r, rest)
		return
	}
	serve, ok := pages[path]
	switch {
	case !ok:
		refusef(http.StatusNotFound, "there is nothing here; /v1/openapi.json says what there is").write(w)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		refuseMethod(w, "GET, HEAD")
	default:
		serve(s, w, r)
	}
}

// pages are the paths that need no token.
var pages = map[string]func(*Server, http.ResponseWriter, *http.Request){
	"/health/live":     (*Server).live,
	"/health/ready":    (*Server).ready,
	"/v1/openapi.json": (*Server).describe,
}

func refuseMethod(w http.ResponseWriter, allowed string) {
	w.Header().Set("Allow", allowed)
	refusef(http.StatusMethodNotAllowed, "the method must be one of: %s", allowed).write(w)
}

func (s *Server) live(w http.ResponseWriter, _ *http.Request) { writeJSON(w, healthy) }

var healthy = map[string]string{"status": "ok"}

// readyKey is read to check whether the store answers.
const readyKey = "health/ready"

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.StoreTimeout)
	defer cancel()
	if _, err := s.store.ReadLease(ctx, readyKey); err != nil {
		refusef(http.StatusServiceUnavailable, "the store does not answer").write(w)
		return
	}
	writeJSON(w, healthy)
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(openAPI) // a client that is gone needs no answer
}

// serveInbox serves what is below /v1/inbox/.
func (s *Server) serveInbox(w http.ResponseWriter, r *http.Request, rest string) {
	op, ok := readRecord, true
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		op, ok = posts[rest]
	default:
		refuseMethod(w, "GET, POST")
		return
	}
	if !ok {
		refusef(http.StatusNotFound, "there is no such operation; /v1/openapi.json says which there are").write(w)
		return
	}
	began := time.Now()
	c := &call{client: r.Context()}
	ctx, end := s.cfg.Observer.Start(context.WithoutCancel(c.client), observe.OpServe, &waybill.Message{
		Type: op.name, TraceParent: traceHeader(r, "Traceparent"), TraceState: traceHeader(r, "Tracestate"),
	})
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(ctx, s.cfg.StoreTimeout)
	defer cancel()
	err := s.answer(w, r, op, c, rest)
	fault := faultOf(err)
	end(fault)
	s.cfg.Observer.Observe(ctx, observe.Event{
		Op: observe.OpServe, Operation: op.name, Status: c.status, Count: c.count, Duration: time.Since(began), Err: fault,
	})
}

// traceHeader returns a header of the trace context, or "" for one that is too long to be one.
func traceHeader(r *http.Request, name string) string {
	if v := r.Header.Get(name); len(v) <= waybill.MaxTraceLen {
		return v
	}
	return ""
}

// faultOf returns err if the server itself failed.
func faultOf(err error) error {
	if err == nil || refusalOf(err).code < http.StatusInternalServerError {
		return nil
	}
	return err
}

// answer performs the operation and writes the answer or the error. A panic is an error: one
// request must not end the server.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, op operation, c *call, rest string) error {
	body := buffers.Get().(*bytes.Buffer)
	defer keepBuffer(body)
	var answer any
	err := loop.Protect(func() (err error) {
		answer, err = s.perform(r, op, c, rest, body)
		return err
	})
	if err != nil {
		refused := refusalOf(err)
		if refused.keyStatus == "" {
			c.status = strconv.Itoa(refused.code)
		}
		refused.write(w)
		return err
	}
	writeJSON(w, answer)
	return nil
}

// perform performs the operation of a request.
func (s *Server) perform(r *http.Request, op operation, c *call, rest string, body *bytes.Buffer) (answer any, err error) {
	if c.from = s.callers.Load().of(r); c.from == nil {
		return nil, refusef(http.StatusUnauthorized, "a bearer token that this server knows is required")
	}
	if wait := c.from.bucket.take(); wait > 0 {
		return nil, &refusal{code: http.StatusTooManyRequests, detail: "more keys per second than are allowed", after: wait}
	}
	if r.Method == http.MethodGet {
		if c.key, err = url.PathUnescape(rest); err != nil {
			return nil, refusef(http.StatusBadRequest, "the key is not percent-encoded")
		}
		return op.do(s, c)
	}
	if err := readBody(r, body, s.cfg.MaxBodyLen); err != nil {
		return nil, err
	}
	c.body = body.Bytes()
	return op.do(s, c)
}

func writeJSON(w http.ResponseWriter, v any) {
	b := buffers.Get().(*bytes.Buffer)
	defer keepBuffer(b)
	_ = json.NewEncoder(b).Encode(v) // the types of answers can be encoded
	w.Header().Set("Content-Type", jsonType)
	_, _ = w.Write(b.Bytes()) // a client that is gone needs no answer
}
