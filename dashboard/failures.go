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
)

const (
	maxFailures   = 10          // of one address, in failureWindow
	failureWindow = time.Minute // from the first of them
	maxFailing    = 10_000      // addresses that are remembered; the one whose window ends first goes
)

// failures counts wrong tokens by address, so that nobody tries them by the thousand.
type failures struct {
	mu sync.Mutex
	by map[netip.Prefix]failure
}

type failure struct {
	count int
	ends  time.Time
}

func newFailures() *failures { return &failures{by: make(map[netip.Prefix]failure)} }

// wait returns how long an address has to wait until it may try again, 0 if it may now.
func (f *failures) wait(from netip.Prefix) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.by[from]; one.count >= maxFailures {
		return max(0, time.Until(one.ends))
	}
	return 0
}

func (f *failures) add(from netip.Prefix) {
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
	var first netip.Prefix
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

// failing is the address that a wrong token counts for. Behind a trusted proxy it is the last
// one that the proxies have not vouched for. Of IPv6 it is the network, in which one machine
// has as many addresses as it likes.
func (d *Dashboard) failing(r *http.Request) netip.Prefix {
	from := httpserve.Sender(r)
	var passed []string
	if forwarded := r.Header.Values("X-Forwarded-For"); len(forwarded) > 0 {
		passed = strings.Split(strings.Join(forwarded, ","), ",")
	}
	for i := len(passed) - 1; i >= 0 && isIn(from, d.cfg.TrustedProxies); i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(passed[i]))
		if err != nil {
			break
		}
		from = addr.Unmap().WithZone("")
	}
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked()
}

// mayTry refuses a token, right or wrong, from where too many wrong ones came.
func (c *call) mayTry() error {
	wait := c.d.failures.wait(c.d.failing(c.r))
	if wait == 0 {
		return nil
	}
	seconds := int(math.Ceil(wait.Seconds()))
	c.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	return &problem{http.StatusTooManyRequests, "Too many wrong tokens",
		fmt.Sprintf("They came from your address. Wait for %s, then try again.", plural(seconds, "second"))}
}

// failed counts a wrong token.
func (c *call) failed() {
	c.d.cfg.Logger.Warn("dashboard: somebody failed to sign in", "remote", c.r.RemoteAddr)
	c.d.failures.add(c.d.failing(c.r))
}
