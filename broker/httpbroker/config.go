package httpbroker

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
)

// Config configures the endpoints that receive webhooks.
type Config struct {
	// Endpoints are the subscribers, with unique names. May be empty if Receiver is set.
	Endpoints []Endpoint

	// Timeout is how long one request may take, its response included. A relay gives a batch
	// its own PublishTimeout at most, which should be longer. 10 ms to 5 min. Optional; the
	// default is 15 s.
	Timeout time.Duration

	// Parallelism is how many requests to one endpoint may be in flight at once, from this
	// process. 1 to 256. Optional; the default is 16.
	Parallelism int

	// AllowNetworks are networks that endpoints may be in although they are not public, such as
	// 10.1.0.0/16 or 127.0.0.1/32. Optional; by default private, loopback, link-local and other
	// special addresses are refused.
	AllowNetworks []netip.Prefix

	// Receiver is where [Broker.Subscriber] receives. The caller serves and closes it.
	// Optional.
	Receiver *Receiver
}

// Endpoint is one subscriber.
type Endpoint struct {
	// Name identifies the endpoint in stored rows, logs and metrics: do not change it while
	// messages wait for it. At most 249 bytes. Required.
	Name string

	// URL is where messages are posted to, with https, or with http, which lets others read
	// them in transit. Required.
	URL string

	// Secrets sign the messages: the current one, and while it is being replaced the new one
	// too. 1 to 16. Required; see [NewSecret].
	Secrets []Secret

	// Topics and Types say which published messages the endpoint gets: those whose topic, or
	// type, one of the patterns matches. Messages that are sent To the endpoint's name match in
	// any case. Optional; without either it gets everything that is published.
	Topics, Types []broker.Pattern

	// Headers are sent with every request, for a gateway's authorisation, say. Optional.
	Headers map[string]string

	// Rate is how many messages per second the endpoint takes; see [relay.Destination].
	// Optional; 0 means no limit.
	Rate float64

	// Structured posts messages in the structured content mode of CloudEvents; see
	// [relay.Destination]. Optional; the default is the binary mode.
	Structured bool

	// Disabled starts no new sends to the endpoint. Messages for it keep waiting.
	Disabled bool
}

const (
	defaultTimeout     = 15 * time.Second
	defaultParallelism = 16
)

func (c Config) withDefaults() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Parallelism == 0 {
		c.Parallelism = defaultParallelism
	}
	c.Endpoints, c.AllowNetworks = slices.Clone(c.Endpoints), slices.Clone(c.AllowNetworks)
	switch {
	case len(c.Endpoints) == 0 && c.Receiver == nil:
		return c, invalidf("Config.Endpoints", "is empty, and Receiver is not set")
	case c.Timeout < 10*time.Millisecond || c.Timeout > 5*time.Minute:
		return c, invalidf("Config.Timeout", "is %v, the range is 10ms to 5m0s", c.Timeout)
	case c.Parallelism < 1 || c.Parallelism > 256:
		return c, invalidf("Config.Parallelism", "is %d, the range is 1 to 256", c.Parallelism)
	}
	return c, c.checkEndpoints()
}

func (c Config) checkEndpoints() error {
	names := make(map[string]bool)
	for i, e := range c.Endpoints {
		field := fmt.Sprintf("Config.Endpoints[%d]", i)
		if err := e.check(field, guard{c.AllowNetworks}); err != nil {
			return err
		}
		if names[e.Name] {
			return invalidf(field+".Name", "%q is the name of another endpoint", e.Name)
		}
		names[e.Name] = true
	}
	return nil
}

func (e Endpoint) check(field string, g guard) error {
	if e.Name == "" || len(e.Name) > waybill.MaxTopicLen {
		return invalidf(field+".Name", "has %d bytes, the range is 1 to %d", len(e.Name), waybill.MaxTopicLen)
	}
	if err := checkURL(field+".URL", e.URL, g); err != nil {
		return err
	}
	if _, err := keysOf(e.Secrets); err != nil {
		return fmt.Errorf("endpoint %q: %w", e.Name, err)
	}
	for _, p := range slices.Concat(e.Topics, e.Types) {
		if err := p.Validate("httpbroker." + field); err != nil {
			return err
		}
	}
	for name, value := range e.Headers {
		if err := checkHeader(field+".Headers", name, value); err != nil {
			return err
		}
	}
	return nil
}

// checkURL refuses at once what the guard would refuse on every attempt. The error does not
// quote the URL, which may hold a secret.
func checkURL(field, raw string, g guard) error {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "":
		return invalidf(field, "is no URL with a host")
	case u.Scheme != "https" && u.Scheme != "http":
		return invalidf(field, "has the scheme %q; https and http are known", u.Scheme)
	case u.Fragment != "":
		return invalidf(field, "has a fragment, which is not sent")
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !g.permits(a) {
		return invalidf(field, "has the address %s, which is not public; Config.AllowNetworks allows it", a)
	}
	return nil
}

// checkHeader refuses headers that this package or package http sets itself.
func checkHeader(field, name, value string) error {
	lower := strings.ToLower(name)
	for _, prefix := range []string{"ce-", "waybill-", "webhook-", "content-", "proxy-"} {
		if strings.HasPrefix(lower, prefix) {
			return invalidf(field, "has %q; headers that begin with %s are set by the sender", name, prefix)
		}
	}
	switch lower {
	case "", "host", "connection", "transfer-encoding", "upgrade", "trailer", "te", "keep-alive", "traceparent", "tracestate":
		return invalidf(field, "has %q, which is set by the sender", name)
	}
	if strings.ContainsFunc(lower, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return invalidf(field, "has %q; letters, digits, '-' and '_' are allowed", name)
	}
	if !plain(value) {
		return invalidf(field, "has a value of %q that is not printable ASCII", name)
	}
	return nil
}

// match reports whether a message is for the endpoint.
func (e Endpoint) match(m *waybill.Message) bool {
	switch {
	case e.Disabled:
		return false
	case m.To != "":
		return m.To == e.Name
	case len(e.Topics)+len(e.Types) == 0:
		return true
	}
	return slices.ContainsFunc(e.Topics, func(p broker.Pattern) bool { return p.Match(m.Topic) }) ||
		slices.ContainsFunc(e.Types, func(p broker.Pattern) bool { return p.Match(m.Type) })
}
