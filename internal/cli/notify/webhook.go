package notify

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-go/waybill/broker/httpbroker"
	"github.com/waybill-go/waybill/internal/alert"
)

// Webhook posts alerts as JSON. Create it with [NewWebhook].
type Webhook struct {
	system, url string
	secrets     []httpbroker.Secret
	client      *http.Client
}

// NewWebhook returns a webhook at a URL, with alerts of the named system. Secrets sign as those of package
// httpbroker do: one, or two while it is replaced. The error quotes neither URL nor secret.
func NewWebhook(system, to string, secrets []httpbroker.Secret) (*Webhook, error) {
	if err := checkURL(to); err != nil {
		return nil, err
	}
	if len(secrets) == 0 {
		return nil, errors.New("needs a secret to sign with")
	}
	if err := httpbroker.Sign(http.Header{}, "id", time.Time{}, nil, secrets...); err != nil {
		return nil, err
	}
	return &Webhook{system: system, url: to, secrets: secrets, client: newClient()}, nil
}

// delivery is the body of a request.
type delivery struct {
	System string        `json:"system"`
	Alerts []alert.Alert `json:"alerts"`
}

// Send posts alerts together and returns nil if they were taken: answered with 2xx. The webhook-id is the id of
// the first. The caller repeats the same alerts until then. It is safe for concurrent use.
func (w *Webhook) Send(ctx context.Context, alerts []alert.Alert) error {
	d := delivery{System: w.system, Alerts: make([]alert.Alert, len(alerts))}
	for i, a := range alerts {
		d.Alerts[i] = shown(a)
	}
	return post(ctx, w.client, w.url, d, func(h http.Header, body []byte) error {
		return httpbroker.Sign(h, alerts[0].ID, time.Now(), body, w.secrets...)
	})
}

// shown returns an alert with its texts as they may be shown.
func shown(a alert.Alert) alert.Alert {
	for _, text := range []*string{&a.Subject, &a.About, &a.Found, &a.Advice} {
		*text = line(*text)
	}
	a.Since, a.Until = a.Since.UTC().Truncate(time.Second), a.Until.UTC().Truncate(time.Second)
	return a
}

// Slack posts alerts to an incoming webhook of Slack, or of another chat that takes the same. Create it with
// [NewSlack].
type Slack struct {
	system, url string
	client      *http.Client
}

// NewSlack returns a channel of the incoming webhook at a URL, which is a secret: the error does not quote it.
func NewSlack(system, to string) (*Slack, error) {
	if err := checkURL(to); err != nil {
		return nil, err
	}
	return &Slack{system: system, url: to, client: newClient()}, nil
}

// Send posts alerts in one message, and returns nil if it was taken: answered with 2xx. It is safe for
// concurrent use.
func (s *Slack) Send(ctx context.Context, alerts []alert.Alert) error {
	message := map[string]string{"text": slackText(s.system, alerts)}
	return post(ctx, s.client, s.url, message, func(http.Header, []byte) error { return nil })
}

// slackText writes what comes from anywhere as code, in which nothing else is markup.
func slackText(system string, alerts []alert.Alert) string {
	var b strings.Builder
	for i, a := range alerts {
		if i > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString("*" + slackCode(system) + "* " + slackCode(title(a)))
		for _, f := range fields(a) {
			if f.text != "" {
				b.WriteString("\n" + f.name + ": " + slackCode(f.text))
			}
		}
		for _, l := range links(a) {
			b.WriteString("\n" + slackEscapes.Replace(l.text))
		}
	}
	return b.String()
}

var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackCode returns a text as code. A backquote would end it.
func slackCode(text string) string {
	return "`" + slackEscapes.Replace(strings.ReplaceAll(line(text), "`", "'")) + "`"
}
