package dashboard

import (
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill/internal/httpserve"
	"github.com/waybill-go/waybill/internal/ops"
)

const (
	maxFailures   = 10          // of one client, in failureWindow
	maxOfProxy    = 600         // of one address that names clients, but is not a trusted proxy
	failureWindow = time.Minute // from the first of them
	maxFailing    = 10_000      // addresses that are remembered; the one whose window ends first is dropped
)

// failures counts wrong tokens by client, to prevent guessing.
type failures struct {
	mu sync.Mutex
	by map[origin]failure
}

// origin is the sender of wrong tokens: an address, and the client that a proxy at that address names,
// which may be forged unless the proxy is trusted.
type origin struct {
	from   netip.Prefix
	client string
}

type failure struct {
	count int
	ends  time.Time
}

func newFailures() *failures { return &failures{by: make(map[origin]failure)} }

// wait returns how long a client has to wait until it may try again, 0 if it may now.
func (f *failures) wait(from origin, limit int) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.by[from]; one.count >= limit {
		return max(0, time.Until(one.ends))
	}
	return 0
}

func (f *failures) add(from origin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one, known := f.by[from]
	if !known && len(f.by) >= maxFailing {
		f.makeRoom()
	}
	if now := time.Now(); !now.Before(one.ends) {
		one = failure{ends: now.Add(failureWindow)}
	}
	one.count++
	f.by[from] = one
}

func (f *failures) makeRoom() {
	var first origin
	earliest := time.Time{}
	for from, one := range f.by {
		if !time.Now().Before(one.ends) {
			delete(f.by, from)
		} else if earliest.IsZero() || one.ends.Before(earliest) {
			first, earliest = from, one.ends
		}
	}
	if len(f.by) >= maxFailing {
		delete(f.by, first)
	}
}

// client is the address that sends a request. Behind a trusted proxy it is the last one that the
// proxies have not vouched for.
func (d *Dashboard) client(r *http.Request) netip.Addr {
	from := httpserve.Sender(r)
	passed := forwardedFor(r)
	for i := len(passed) - 1; i >= 0 && isIn(from, d.cfg.TrustedProxies); i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(passed[i]))
		if err != nil {
			break
		}
		from = addr.Unmap().WithZone("")
	}
	return from
}

func forwardedFor(r *http.Request) []string {
	if forwarded := r.Header.Values("X-Forwarded-For"); len(forwarded) > 0 {
		return strings.Split(strings.Join(forwarded, ","), ",")
	}
	return nil
}

// failing returns the origin that a wrong token counts against. For IPv6 it is the network, in which
// one machine has any number of addresses. An address that is not a trusted proxy, but names clients,
// may be a proxy that was not configured: its clients are counted separately, so that one of them does
// not lock out all.
func (d *Dashboard) failing(r *http.Request) origin {
	from := d.client(r)
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	o := origin{from: netip.PrefixFrom(from, bits).Masked()}
	if passed := forwardedFor(r); len(passed) > 0 && !fromAny(r, d.cfg.TrustedProxies) {
		last := strings.TrimSpace(passed[len(passed)-1])
		o.client = last[:min(len(last), maxClientName)]
	}
	return o
}

const maxClientName = 64

// mayTry refuses a token, right or wrong, from an origin with too many wrong ones.
func (c *call) mayTry() error {
	from := c.d.failing(c.r)
	wait := c.d.failures.wait(from, maxFailures)
	if from.client != "" {
		wait = max(wait, c.d.failures.wait(origin{from: from.from}, maxOfProxy))
	}
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return &problem{http.StatusTooManyRequests, "Too many wrong tokens",
		fmt.Sprintf("They came from your address. Wait for %s, then try again.", ops.Plural(seconds, "second"))}
}

// failed counts a wrong token.
func (c *call) failed() {
	c.d.cfg.Logger.Warn("dashboard: somebody failed to sign in", "remote", c.r.RemoteAddr)
	from := c.d.failing(c.r)
	c.d.failures.add(from)
	if from.client != "" {
		c.d.failures.add(origin{from: from.from})
		c.d.unknownProxy.Do(func() {
			c.d.cfg.Logger.Warn("dashboard: requests come through a proxy that is not among TrustedProxies (--proxy), so that what it says of its clients cannot be believed", "remote", c.r.RemoteAddr)
		})
	}
}
