package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are the standard environment variables of an exporter of spans. Their names are listed
// in https://opentelemetry.io/docs/specs/otel/protocol/exporter/.
type settings struct {
	endpoint *url.URL
	headers  http.Header
	timeout  time.Duration // of one request
	gzip     bool
	tls      *tls.Config // nil for the default
}

const defaultTimeout = 10 * time.Second

// wanted reports whether the environment requests the export of spans: by name, or by setting an endpoint.
func wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "otlp":
		return true, nil
	case "none":
		return false, nil
	case "":
		return option(getenv, "ENDPOINT") != "", nil
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; it is otlp or none", exporter)
	}
}

// option returns the variable for spans, or else that for all signals.
func option(getenv func(string) string, name string) string {
	if value := getenv("OTEL_EXPORTER_OTLP_TRACES_" + name); value != "" {
		return value
	}
	return getenv("OTEL_EXPORTER_OTLP_" + name)
}

// readSettings reads the environment. Errors name the variable, and do not quote values that may contain a secret.
func readSettings(getenv func(string) string) (s settings, err error) {
	if protocol := option(getenv, "PROTOCOL"); protocol != "" && protocol != "http/json" && protocol != "http/protobuf" {
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q; only OTLP over HTTP is spoken here, by http/json", protocol)
	}
	if s.endpoint, err = readEndpoint(getenv); err != nil {
		return s, err
	}
	if s.headers, err = readHeaders(option(getenv, "HEADERS")); err != nil {
		return s, err
	}
	s.timeout = defaultTimeout
	if text := option(getenv, "TIMEOUT"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil || ms < 1 {
			return s, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT is %q; it is a number of milliseconds", text)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	switch compression := option(getenv, "COMPRESSION"); compression {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		return s, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION is %q; it is gzip or none", compression)
	}
	s.tls, err = readTLS(option(getenv, "CERTIFICATE"), option(getenv, "CLIENT_CERTIFICATE"), option(getenv, "CLIENT_KEY"))
	return s, err
}

// readEndpoint returns the URL that spans are sent to. The endpoint for all signals is a base URL, that for
// spans is used as it is.
func readEndpoint(getenv func(string) string) (*url.URL, error) {
	name := "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	text := getenv(name)
	isBase := text == ""
	if isBase {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		text = getenv(name)
	}
	if text == "" {
		text = "http://localhost:4318"
	}
	endpoint, err := url.Parse(text)
	if err != nil || endpoint.Scheme != "http" && endpoint.Scheme != "https" || endpoint.Hostname() == "" {
		return nil, fmt.Errorf("%s is not a URL such as http://localhost:4318", name)
	}
	if isBase {
		endpoint = endpoint.JoinPath("v1", "traces")
	}
	return endpoint, nil
}

// readHeaders reads headers: comma-separated key=value, percent-encoded.
func readHeaders(text string) (http.Header, error) {
	pairs, err := readPairs(text)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS %w", err)
	}
	headers := make(http.Header)
	for _, p := range pairs {
		headers.Set(p.key, p.value)
	}
	return headers, nil
}

type pair struct{ key, value string }

// readPairs reads key=value,key=value, percent-encoded. The error continues a sentence that names the variable.
func readPairs(text string) ([]pair, error) {
	var pairs []pair
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !found || key == "" || err != nil {
			return nil, errors.New("is not comma-separated key=value, percent-encoded")
		}
		pairs = append(pairs, pair{key, value})
	}
	return pairs, nil
}

// readTLS reads the files of certificates; nil if none is named.
func readTLS(authority, certificate, key string) (*tls.Config, error) {
	if authority == "" && certificate == "" && key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE names %s, which holds no certificate", authority)
		}
	}
	if certificate != "" || key != "" {
		own, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
