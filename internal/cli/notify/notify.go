// Package notify delivers alerts: to a webhook, to a chat that takes what Slack takes, and by mail.
//
// What was found may quote anybody: names of topics, errors of servers, statements. A text is one line of
// limited length without control characters wherever it goes, and it cannot become markup, a field of JSON or a
// header of a mail. Errors name neither URLs nor passwords, and quote nothing that a server has answered.
package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/waybill-go/waybill/internal/alert"
	"github.com/waybill-go/waybill/internal/ops"
)

// maxText is the most characters of a text that a check has made.
const maxText = 500

// maxAnswer is how many bytes of a server's answer are read, so that its connection can be used again.
const maxAnswer = 64 << 10

// line returns a text in one line, without what could control a terminal or change the direction of writing.
func line(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return unicode.ReplacementChar
		}
		return r
	}, ops.Short(text, maxText))
}

// title says in a few words what is announced.
func title(a alert.Alert) string {
	return fmt.Sprintf("%s %s: %s", line(a.Severity), a.Event, line(strings.TrimSpace(a.Subject+" "+a.About)))
}

// field is a name and a text.
type field struct{ name, text string }

// fields say what is known of an alert, without its title and links.
func fields(a alert.Alert) []field {
	list := []field{{"found", line(a.Found)}, {"since", ops.Moment(&a.Since)}}
	if a.Event == alert.Ended {
		return append(list, field{"until", ops.Moment(&a.Until)})
	}
	return append(list, field{"do", line(a.Advice)})
}

// links lead to what shows more.
func links(a alert.Alert) []field {
	list := []field{{"dashboard", a.Dashboard}, {"runbook", a.Runbook}}
	if a.Event == alert.Ended {
		list = list[:1]
	}
	var set []field
	for _, l := range list {
		if l.text != "" {
			set = append(set, l)
		}
	}
	return set
}

const connectTimeout = 10 * time.Second

// newClient returns a client that follows no redirect, which would take the secret elsewhere.
func newClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
			TLSHandshakeTimeout: connectTimeout, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: maxAnswer,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// post sends v as JSON. The headers are set by prepare, which gets the body.
func post(ctx context.Context, client *http.Client, to string, v any, prepare func(h http.Header, body []byte) error) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL is malformed")
	}
	req.Header.Set("Content-Type", "application/json")
	if err := prepare(req.Header, body); err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return causeOf(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // a failure costs the connection only
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("it answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// causeOf returns the cause of an error of package http, which quotes the URL, and may quote the answer.
func causeOf(err error) error {
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return context.DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &network):
		return network
	case errors.As(err, &certificate):
		return certificate
	}
	return errors.New("its answer is no HTTP, or it has closed the connection")
}

// checkURL refuses what cannot be posted to. The error does not quote it.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("is no URL such as https://host/path")
	}
	return nil
}
