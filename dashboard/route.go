package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/httpserve"
	"github.com/waybill-go/waybill/internal/ops"
)

// call is one request in the handler.
type call struct {
	d      *Dashboard
	w      http.ResponseWriter
	r      *http.Request
	who    identity
	root   string // relative URL of where the dashboard is mounted, with a slash at its end
	stores        // what the person may access by this route
}

// route says who may see a page, or do something, and handles the request.
type route struct {
	pattern string
	role    Role
	reveal  bool  // the right to see payloads is needed as well
	of      reach // whose messages it is about
	body    int64 // 0: smallBody
	do      func(*call) error
}

const (
	loginBody = 4 << 10 // what may be read from an unauthenticated client
	smallBody = 64 << 10
	// An edited payload arrives in the encoding of forms, or as hexadecimal digits.
	largeBody = 4 * waybill.MaxPayloadLen
)

func (d *Dashboard) routing() *http.ServeMux {
	mux := http.NewServeMux()
	for _, r := range d.list() {
		mux.HandleFunc(r.pattern, func(w http.ResponseWriter, req *http.Request) { d.answer(w, req, r) })
	}
	mux.HandleFunc("GET /assets/{name}", d.serveAsset)
	return mux
}

// list returns every route except that of assets, which are public. What the store does not keep has no route.
func (d *Dashboard) list() []route {
	routes := append(d.verbRoutes(), []route{
		{pattern: "GET /login", of: ofNoTenant, do: d.loginPage},
		{pattern: "POST /login", body: loginBody, of: ofNoTenant, do: d.logIn},
		{pattern: "POST /logout", role: Reader, of: ofNoTenant, do: d.logOut},
		{pattern: "GET /sessions", role: Reader, of: ofNoTenant, do: d.sessionsPage},
		{pattern: "POST /sessions/end", role: Reader, of: ofNoTenant, do: d.endSession},
		{pattern: "GET /{$}", role: Reader, of: ofOneTenant, do: d.overview},
		{pattern: "GET /find", role: Reader, of: ofOneTenant, do: d.find},
		{pattern: "GET /messages", role: Reader, of: ofOneTenant, do: d.messages},
		{pattern: "GET /dead", role: Reader, do: d.groups},
		{pattern: "GET /dead/list", role: Reader, of: ofOneTenant, do: d.letters},
		{pattern: "POST /dead/selected", role: Operator, of: ofOneTenant, do: d.changeSelected},
		{pattern: "GET /dead/{number}", role: Reader, of: ofOneTenant, do: d.letter},
		{pattern: "POST /dead/{number}/reveal", role: Reader, reveal: true, of: ofOneTenant, do: d.revealLetter},
		{pattern: "POST /dead/{number}/edit", role: rightOf(ops.Letter, "edit"), reveal: true, of: ofOneTenant, do: d.editForm},
		{pattern: "POST /dead/{number}/save", role: rightOf(ops.Letter, "edit"), reveal: true, body: largeBody, of: ofOneTenant, do: d.saveEdit},
		{pattern: "GET /consumers", role: Reader, do: d.consumers},
		{pattern: "GET /audit", role: Reader, do: d.audit},
		{pattern: "/", role: Reader, of: ofNoTenant, do: func(*call) error { return errNoPage }},
	}...)
	if d.all.replays != nil {
		routes = append(routes, []route{
			{pattern: "GET /replays", role: Reader, do: d.replays},
			{pattern: "GET /replays/new", role: rightOf(ops.Replay, "replay"), do: d.previewReplay},
			{pattern: "POST /replays", role: rightOf(ops.Replay, "replay"), do: d.startReplay},
			{pattern: "GET /replays/{number}", role: Reader, do: d.replay},
		}...)
	}
	if d.all.sagas != nil {
		routes = append(routes, []route{
			{pattern: "GET /sagas", role: Reader, of: ofOneTenant, do: d.sagas},
			{pattern: "GET /sagas/instance", role: Reader, of: ofOneTenant, do: d.instance},
			{pattern: "POST /sagas/reveal", role: Reader, reveal: true, of: ofOneTenant, do: d.revealInstance},
		}...)
	}
	if d.all.schedules != nil {
		routes = append(routes, []route{
			{pattern: "GET /schedules", role: Reader, of: ofOneTenant, do: d.schedules},
			{pattern: "GET /schedules/one", role: Reader, of: ofOneTenant, do: d.schedule},
			{pattern: "POST /schedules/reveal", role: Reader, reveal: true, of: ofOneTenant, do: d.revealSchedule},
		}...)
	}
	if d.traffic != nil {
		routes = append(routes, route{pattern: "GET /traffic", role: Reader, do: d.trafficPage})
	}
	if d.all.relays != nil {
		routes = append(routes, route{pattern: "GET /relays", role: Reader, do: d.relays})
	}
	if d.cfg.Checks != nil {
		routes = append(routes, route{pattern: "GET /checks", role: Reader, do: d.checksPage})
	}
	return routes
}

// rightOf is the role that may use a verb.
func rightOf(noun ops.Noun, verb string) Role { return Role(ops.Find(noun, verb).Right) }

// ServeHTTP implements [http.Handler].
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if d.isSecure(r) && !httpserve.IsLocal(r) {
		w.Header().Set("Strict-Transport-Security", "max-age=31536000")
	}
	switch {
	case r.URL.Path == "":
		// Mounted without the slash at the end, which relative links need.
		asked, _, _ := strings.Cut(r.RequestURI, "?")
		w.Header().Set("Location", "./"+path.Base(asked)+"/")
		w.WriteHeader(http.StatusPermanentRedirect)
	case path.Clean(r.URL.Path) != r.URL.Path:
		// The multiplexer would redirect to the clean path, without the prefix that this is mounted at.
		http.Error(w, "not found", http.StatusNotFound)
	default:
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		d.routes.ServeHTTP(w, r.WithContext(ctx))
	}
}

// setHeaders forbids everything that the pages do not need.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// answer passes a request to its route, if it is allowed.
func (d *Dashboard) answer(w http.ResponseWriter, r *http.Request, to route) {
	c := &call{d: d, w: w, r: r, root: "./" + strings.Repeat("../", strings.Count(r.URL.Path, "/")-1)}
	defer c.recover()
	r.Body = http.MaxBytesReader(w, r.Body, cmp.Or(to.body, smallBody))
	if err := c.enter(to); err != nil {
		c.fail(err)
	}
}

// enter checks in this order: where the request comes from, who sends it, whether the person has the right, for
// which tenants, whether the form is ours. The form is read last, so that unauthenticated clients cannot make us
// hold one.
func (c *call) enter(to route) error {
	if err := c.d.sameSite.Check(c.r); err != nil {
		return errCrossSite
	}
	if c.d.cfg.AllowLoopback || to.role > Nobody {
		known, err := c.identify()
		if err != nil {
			return err
		}
		if !known {
			return c.d.askWho(c)
		}
	}
	switch {
	case c.who.Role < to.role:
		return &problem{http.StatusForbidden, "Not allowed", fmt.Sprintf("This needs the role %s; yours is %s.", to.role, c.who.Role)}
	case to.reveal && !c.canReveal():
		return &problem{http.StatusForbidden, "Not allowed", "This needs the right to see payloads."}
	}
	var err error
	if c.stores, err = c.d.storesFor(c.who.Grant, to.of); err != nil {
		return err
	}
	if c.isChange() {
		if err := c.r.ParseForm(); err != nil {
			return &problem{http.StatusBadRequest, "The form could not be read", "It is too large, or malformed."}
		}
		if to.role > Nobody && !c.d.hasFormToken(c.r, c.who) {
			return errStaleForm
		}
	}
	if err := c.checkText(); err != nil {
		return err
	}
	return to.do(c)
}

// checkText refuses text that no store can keep, in the URL and in the form.
func (c *call) checkText() error {
	for _, values := range []url.Values{c.r.URL.Query(), c.r.PostForm} {
		for name, list := range values {
			if name != "payload" && !isStorable(name+strings.Join(list, "")) { // a payload may be any bytes
				return invalidField(strings.ReplaceAll(strings.ToValidUTF8(name, "?"), "\x00", "?"), "is not UTF-8 text, or holds a NUL")
			}
		}
	}
	return nil
}

func (c *call) isChange() bool { return c.r.Method != http.MethodGet && c.r.Method != http.MethodHead }

func (c *call) canReveal() bool { return c.who.Reveal && c.d.all.audit != nil }

// redirect redirects to a page below the dashboard's root.
func (c *call) redirect(to string) error {
	c.w.Header().Set("Location", c.root+to)
	c.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// number returns the number in the path.
func (c *call) number() (int64, error) {
	n, err := strconv.ParseInt(c.r.PathValue("number"), 10, 64)
	if err != nil || n < 1 {
		return 0, errNoPage
	}
	return n, nil
}

// act returns who changes something, and why.
func (c *call) act() deadletter.Act {
	return deadletter.Act{By: c.who.Name, Why: strings.TrimSpace(c.r.PostFormValue("why"))}
}

// problem is an error that is shown to the person as it is.
type problem struct {
	status      int
	title, text string
}

func (p *problem) Error() string { return p.title + ": " + p.text }

var (
	errNoPage    = &problem{http.StatusNotFound, "Not found", "There is no such page."}
	errCrossSite = &problem{http.StatusForbidden, "Not allowed", "The request comes from another site."}
	errStaleForm = &problem{http.StatusForbidden, "The form is out of date", "Go back, load the page again, and repeat what you did. Nothing was changed."}
)

// explain turns an error into what is shown to the person. An unknown error is logged, and not shown.
func (c *call) explain(err error) *problem {
	var known *problem
	var refused *waybill.InvalidError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &refused):
		return &problem{http.StatusBadRequest, "Refused", refused.Field + " " + refused.Reason + "."}
	}
	reason, _ := ops.Refused(err)
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return &problem{http.StatusNotFound, "Not found", ops.Capital(reason) + "."}
	case reason != "":
		return &problem{http.StatusConflict, "Nothing was changed", ops.Capital(reason) + "."}
	}
	c.d.cfg.Logger.Error("dashboard: a request failed", "path", c.r.URL.Path, "err", err)
	if errors.Is(err, waybill.ErrNotMigrated) {
		return &problem{http.StatusServiceUnavailable, "The store is not migrated", "Its tables are missing, or of an older release. Run waybill migrate."}
	}
	if waybill.IsUnavailable(err) || errors.Is(err, context.DeadlineExceeded) {
		return &problem{http.StatusServiceUnavailable, "The store does not answer", "Try again in a moment. The log of this process says more."}
	}
	return &problem{http.StatusInternalServerError, "The store has failed", "The log of this process says why."}
}

// fail answers with an error.
func (c *call) fail(err error) {
	p := c.explain(err)
	if shown := c.show(p.status, "problem", p.title, p.text); shown != nil {
		c.d.cfg.Logger.Error("dashboard: a page could not be shown", "path", c.r.URL.Path, "err", shown)
	}
}

// recover turns a panic into a page that reveals nothing of it.
func (c *call) recover() {
	if v := recover(); v != nil {
		if v == http.ErrAbortHandler {
			panic(v)
		}
		c.d.cfg.Logger.Error("dashboard: a request panicked", "path", c.r.URL.Path, "panic", v, "stack", string(debug.Stack()))
		c.fail(&problem{http.StatusInternalServerError, "Something went wrong", "The log of this process says what."})
	}
}
