package kafkabroker

import (
	"crypto/tls"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/waybill-go/waybill/internal/redact"
)

// defaultPort is that of Kafka's own configuration.
const defaultPort = "9092"

// address is what a URL says.
type address struct {
	seeds     []string // host:port
	encrypted bool
	mechanism sasl.Mechanism // nil without a user
}

// parseURL reads the URL of a cluster. It does not use url.Parse, which supports only one host.
// The error quotes nothing of the URL, which may hold a password.
func parseURL(s string) (address, error) {
	var a address
	scheme, rest, ok := strings.Cut(s, "://")
	switch {
	case s == "":
		return a, invalidf("URL", "is required")
	case !ok || scheme != "kafka" && scheme != "kafkas":
		return a, invalidf("URL", "does not start with kafka:// or kafkas://")
	case redact.Misplaced(s): // else part of the password is taken for the port, and shown
		return a, invalidf("URL", "has a '/', '?' or '#' in its password that is not percent-encoded")
	}
	a.encrypted = scheme == "kafkas"
	rest, query, _ := strings.Cut(rest, "?")
	user, hosts, hasUser := cutLast(rest, "@")
	if !hasUser {
		hosts = rest
	}
	for host := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		seed, err := hostPort(strings.TrimSpace(host))
		if err != nil {
			return a, err
		}
		a.seeds = append(a.seeds, seed)
	}
	var err error
	a.mechanism, err = mechanismOf(user, query)
	return a, err
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", "", false
}

func hostPort(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		host, port, err = net.SplitHostPort(net.JoinHostPort(strings.Trim(s, "[]"), defaultPort))
	}
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || host == "" || strings.Contains(host, "/") {
		return "", invalidf("URL", "has a host that is not host or host:port")
	}
	return net.JoinHostPort(host, port), nil
}

// mechanismOf returns how user, "name:password" or "", is authenticated to the brokers.
func mechanismOf(user, query string) (sasl.Mechanism, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, invalidf("URL", "has a query that cannot be read")
	}
	kind := values.Get("sasl")
	values.Del("sasl")
	switch {
	case len(values) > 0:
		return nil, invalidf("URL", "has a parameter that is not sasl")
	case user == "" && kind != "":
		return nil, invalidf("URL", "has the parameter sasl and no user")
	case user == "":
		return nil, nil
	}
	name, password, _ := strings.Cut(user, ":")
	name, nameErr := url.PathUnescape(name)
	password, passwordErr := url.PathUnescape(password)
	if nameErr != nil || passwordErr != nil || name == "" {
		return nil, invalidf("URL", "has a user or password that is not percent-encoded")
	}
	switch kind {
	case "", "plain":
		return plain.Auth{User: name, Pass: password}.AsMechanism(), nil
	case "scram-sha-256":
		return scram.Auth{User: name, Pass: password}.AsSha256Mechanism(), nil
	case "scram-sha-512":
		return scram.Auth{User: name, Pass: password}.AsSha512Mechanism(), nil
	}
	return nil, invalidf("URL", "has a parameter sasl that is not plain, scram-sha-256 or scram-sha-512")
}

// hosts are the first brokers to ask, for the log.
func (c Config) hosts() string {
	a, _ := parseURL(c.URL) // checked by withDefaults
	return strings.Join(a.seeds, ",")
}

// options are those of every client of the cluster.
func (c Config) options(extra ...kgo.Opt) []kgo.Opt {
	a, _ := parseURL(c.URL) // checked by withDefaults
	list := []kgo.Opt{kgo.SeedBrokers(a.seeds...), kgo.ClientID("waybill")}
	if a.encrypted {
		config := c.TLS
		if config == nil {
			config = &tls.Config{MinVersion: tls.VersionTLS12}
		}
		list = append(list, kgo.DialTLSConfig(config))
	}
	if a.mechanism != nil {
		list = append(list, kgo.SASL(a.mechanism))
	}
	return append(append(list, extra...), c.Options...)
}
