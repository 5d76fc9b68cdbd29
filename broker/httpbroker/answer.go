package httpbroker

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	// maxResponse is how much of a response is read, so that its connection can be used again.
	maxResponse = 64 << 10

	// maxRetryAfter is the longest wait that an endpoint can ask for.
	maxRetryAfter = 24 * time.Hour
)

// judge maps a response to a result. Only its status appears in the error.
//
//	2xx                  delivered
//	410                  permanent: the endpoint wants no more
//	413                  permanent, too large
//	429 and Retry-After  unavailable, the endpoint is left alone meanwhile
//	503 and Retry-After  this message waits, uncounted
//	429 502 503 504      unavailable
//	all else, 3xx too    transient: counted, tried again, in the end a dead letter
func (s *sender) judge(resp *http.Response) error {
	code := resp.StatusCode
	if code >= 200 && code <= 299 {
		return nil
	}
	err := fmt.Errorf("httpbroker: endpoint %q answered %d %s", s.endpoint.Name, code, http.StatusText(code))
	after, asked := retryAfter(resp.Header, time.Now())
	switch code {
	case http.StatusGone:
		return waybill.PermanentError(waybill.ReasonRejected, err)
	case http.StatusRequestEntityTooLarge:
		return waybill.PermanentError(waybill.ReasonTooLarge, err)
	case http.StatusServiceUnavailable:
		if asked {
			return waybill.RetryAfter(after, err)
		}
		return waybill.UnavailableError(err)
	case http.StatusTooManyRequests:
		s.rest(after)
		return waybill.UnavailableError(err)
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return waybill.UnavailableError(err)
	}
	return err
}

// retryAfter returns the wait that a response asks for, in seconds or as a date.
func retryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter), true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}

// drain reads the rest of a response, within limits, and closes it. A failure here only costs a
// connection.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, maxResponse)
	_ = body.Close()
}
