package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
)

const (
	firstDelay = time.Second // before the second attempt; it doubles with each
	maxDelay   = 30 * time.Second
	maxAnswer  = 64 << 10 // bytes read of an answer
)

// exporter sends spans to a collector. The processor does not call it concurrently.
type exporter struct {
	settings
	client *http.Client
	log    *slog.Logger
	down   bool // the last batch was not exported
}

var _ trace.SpanExporter = (*exporter)(nil)

func newExporter(s settings, log *slog.Logger) *exporter {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = s.tls
	return &exporter{settings: s, log: log, client: &http.Client{
		Transport: transport,
		// The headers may contain secrets, which a redirect could send elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ExportSpans implements [trace.SpanExporter]. An outage is logged here, when it begins and when it ends.
func (e *exporter) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	rejected, err := e.export(ctx, spans)
	switch {
	case err != nil && !e.down:
		e.log.Warn("traces are not exported", "collector", e.endpoint.Host, "error", err)
	case err == nil && e.down:
		e.log.Info("traces are exported again", "collector", e.endpoint.Host)
	}
	e.down = err != nil
	if rejected > 0 {
		e.log.Warn("the collector has rejected spans", "collector", e.endpoint.Host, "count", rejected)
	}
	return nil
}

// Shutdown implements [trace.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// export sends spans until they are accepted, refused, or ctx ends. It returns how many of the spans
// sent were rejected.
func (e *exporter) export(ctx context.Context, spans []trace.ReadOnlySpan) (rejected int64, err error) {
	body, err := e.encode(newRequest(spans))
	if err != nil {
		return 0, err
	}
	for delay := firstDelay; ; delay = min(2*delay, maxDelay) {
		rejected, err = e.send(ctx, body)
		var again *temporaryError
		if err == nil || !errors.As(err, &again) {
			return rejected, err
		}
		wait := again.after
		if wait == 0 {
			wait = delay/2 + rand.N(delay/2)
		}
		if ends, ok := ctx.Deadline(); ok && time.Until(ends) <= wait {
			return 0, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return 0, err
		}
	}
}

func (e *exporter) encode(r request) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil || !e.gzip {
		return body, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // a buffer accepts everything
	_ = w.Close()
	return packed.Bytes(), nil
}

// temporaryError is the error of an attempt that may be repeated.
type temporaryError struct {
	err   error
	after time.Duration // the wait that the collector asks for; 0 if none
}

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }

// send makes one attempt. Its errors quote neither the URL nor headers.
func (e *exporter) send(ctx context.Context, body []byte) (rejected int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the request could not be made")
	}
	r.Header = e.headers.Clone()
	r.Header.Set("Content-Type", "application/json")
	if e.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := e.client.Do(r)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			err = of.Err
		}
		return 0, &temporaryError{err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode/100 == 2 && err == nil:
		return rejectedIn(text), nil
	case answer.StatusCode/100 == 2:
		return 0, nil // it was accepted, whatever else the answer says
	case slices.Contains(temporary, answer.StatusCode):
		return 0, &temporaryError{fmt.Errorf("the collector answered %s", statusText(answer.StatusCode)), retryAfter(answer.Header.Get("Retry-After"))}
	}
	return 0, fmt.Errorf("the collector answered %s", statusText(answer.StatusCode))
}

// temporary are the statuses after which OTLP requires a retry.
var temporary = []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func statusText(code int) string { return strconv.Itoa(code) + " " + http.StatusText(code) }

// retryAfter reads the header of that name, in seconds or as a date; 0 if there is none.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// rejectedIn returns how many spans an answer reports as rejected.
func rejectedIn(answer []byte) int64 {
	var a struct {
		Partial struct {
			Rejected json.RawMessage `json:"rejectedSpans"` // a string, or a number
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return 0
	}
	n, err := strconv.ParseInt(string(bytes.Trim(a.Partial.Rejected, `"`)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
