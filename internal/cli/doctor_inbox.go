package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/discovery"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/observe"
)

// inboxQuestion is how the programs that the doctor checks find their inbox service.
type inboxQuestion struct {
	url       string
	discovery bool
	hosts     []string
	http      bool
}

func (q *inboxQuestion) add(cmd *cobra.Command, all *pflag.FlagSet) {
	flags := cmd.Flags()
	flags.StringVar(&q.url, "inbox-url", "", "look at the inbox service at this `URL`")
	flags.BoolVar(&q.discovery, "inbox-discovery", false, "look for an inbox service over --broker, which publishes a ping")
	addAlias(cmd, all, "discovery-bus", "inbox-bus")
	addAlias(cmd, all, "discovery-group", "inbox-group")
	flags.StringSliceVar(&q.hosts, "inbox-hosts", nil, "with --inbox-discovery: `hosts` that it may be at")
	flags.BoolVar(&q.http, "inbox-allow-http", false, "with --inbox-discovery: it may do without TLS")
}

func (q inboxQuestion) asked() bool { return q.url != "" || q.discovery }

const inboxSubject = "inbox service"

// checkInbox finds the inbox service as a program would, says why it is this one, and asks
// whether it is ready. It returns nothing unless an inbox is requested. The error is about the
// configuration.
func (e examination) checkInbox(ctx context.Context) ([]finding, error) {
	if !e.inbox.asked() {
		return nil, nil
	}
	transport, done, err := e.inboxTransport(ctx)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{failing(inboxSubject, "not looked for: the broker does not answer", "start it, or correct --broker")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer done()
	cfg := discovery.Config{
		Endpoint: e.inbox.url, Enabled: e.inbox.discovery, Name: "waybill doctor",
		Bus: e.cfg.String("discovery.bus"), Group: e.cfg.String("discovery.group"),
		Timeout: e.cfg.Duration("discovery.timeout"), SelectionWindow: e.cfg.Duration("discovery.selection_wait"),
		AllowedHosts: e.inbox.hosts, AllowHTTP: e.inbox.http, Log: slog.New(slog.DiscardHandler),
	}
	finder, err := discovery.NewFinder(transport, cfg)
	if err != nil {
		return nil, usagef("%v", err)
	}
	decision, err := finder.Find(ctx)
	if err != nil {
		return nil, err
	}
	return []finding{judgeInbox(ctx, cfg, decision)}, nil
}

// inboxTransport opens the broker if it has to be asked.
func (e examination) inboxTransport(ctx context.Context) (_ discovery.Transport, done func(), _ error) {
	if e.inbox.url != "" {
		return nil, func() {}, nil
	}
	broker, _, err := openBrokerAsIs(ctx, e.cfg)
	if err != nil {
		return nil, nil, err
	}
	transport, err := opener.Discovery(broker)
	return transport, func() { _ = broker.Close() }, err
}

func judgeInbox(ctx context.Context, cfg discovery.Config, d discovery.Decision) finding {
	if d.Endpoint.URL == "" {
		return failing(inboxSubject, fmt.Sprintf("%s for bus %s, group %s; %d announcements refused", d.Reason, cfg.Bus, cfg.Group, d.Refused),
			"start one with --announce, and see that --inbox-hosts names its host")
	}
	found := fmt.Sprintf("%s: %s", d.Reason, d.Endpoint.URL)
	if d.Reason == discovery.ReasonDiscovered {
		found += fmt.Sprintf(", %s of %d", d.Endpoint.Name, d.Accepted)
	}
	if err := askReady(ctx, d.Endpoint.URL); err != nil {
		return failing(inboxSubject, found+" is not ready: "+observe.ErrorText(err), "see the service's log, and what is between here and there")
	}
	return passing(inboxSubject, found+" is ready")
}

// askReady asks a service whether it is ready. It follows no redirect, which may lead to a host
// that is not allowed.
func askReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, opener.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/health/ready", nil)
	if err != nil {
		return err
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New("it answers " + resp.Status)
	}
	return nil
}
