package cli

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/push"
)

// PushProtocol is a protocol for clients of "waybill push".
type PushProtocol struct {
	// Scheme is that of the URLs that ask for it, such as "signalr".
	Scheme string

	// Handler returns what serves the clients of a hub, at a path and below, until ctx ends. Pages
	// of these origins may connect in addition to those of the server's own host.
	Handler func(ctx context.Context, hub *push.Hub, path string, origins []string) (http.Handler, error)
}

// serverSentEvents is the protocol that every build speaks.
var serverSentEvents = PushProtocol{
	Scheme:  "sse",
	Handler: func(_ context.Context, hub *push.Hub, _ string, _ []string) (http.Handler, error) { return hub, nil },
}

// installSignalR installs the program that speaks SignalR, too.
const installSignalR = "go install github.com/waybill-go/waybill/broker/signalrbroker/cmd/waybill@latest"

// pushSettings are the settings of the command.
type pushSettings struct {
	listenFlags
	protocol     PushProtocol
	path         string
	local        bool // only this machine reaches it
	subscription consumer.Subscription
	origins      []string
	tokens       int // 0: everybody is let in
	authorize    func(*http.Request) (push.Grant, error)
	access       *pushAccess // nil without tokens
}

func (s pushSettings) inTheClear() bool { return s.tokens > 0 && !s.local && !s.speaksTLS() }

func (p *program) pushSettings(cfg *config.Config, tls listenFlags) (s pushSettings, err error) {
	s.listenFlags = tls
	if err := s.readURL(cfg, append(p.protocols, serverSentEvents)); err != nil {
		return s, err
	}
	s.subscription = consumer.Subscription{Group: cfg.String("push.group"), Topics: commaList(cfg.String("push.topics"))}
	switch {
	case len(s.subscription.Topics) == 0:
		return s, usagef("push.topics (%s) is empty; name what is pushed, such as --topics orders,invoices", cfg.Origin("push.topics"))
	case s.subscription.Group == "":
		return s, usagef("push.group (%s) is empty; give each process a consumer group of its own, such as --group push-1", cfg.Origin("push.group"))
	}
	if err := s.subscription.Validate(); err != nil {
		return s, usagef("%v", err)
	}
	s.origins = commaList(cfg.String("push.allowed_origins"))
	return s, s.readAccess(cfg)
}

// pushPath matches a path without patterns or escapes.
var pushPath = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)

// readURL reads where and how clients are served.
func (s *pushSettings) readURL(cfg *config.Config, protocols []PushProtocol) error {
	text, origin := cfg.String("push.to"), cfg.Origin("push.to")
	scheme, _, _ := strings.Cut(text, "://")
	i := slices.IndexFunc(protocols, func(p PushProtocol) bool { return p.Scheme == strings.ToLower(scheme) })
	switch {
	case text == "":
		return usagef("push.to (%s) is empty; say where clients are served, such as --to sse://127.0.0.1:8090/events", origin)
	case i < 0 && strings.EqualFold(scheme, "signalr"):
		return usagef("push.to (%s): this program does not speak SignalR, which needs a library that few want; the one that does: %s", origin, installSignalR)
	}
	u, err := url.Parse(text)
	if i < 0 || err != nil || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !pushPath.MatchString(u.EscapedPath()) {
		return usagef("push.to (%s) is no URL sse://host:port/path or signalr://host:port/path, with a path of letters, digits and -._~", origin)
	}
	if _, _, err := net.SplitHostPort(u.Host); err != nil {
		return usagef("push.to (%s): %q has no port", origin, u.Host)
	}
	s.protocol, s.listen, s.path = protocols[i], u.Host, u.Path
	s.local, err = s.check()
	return err
}

// readAccess reads who may see what. Access for everybody must be requested explicitly.
func (s *pushSettings) readAccess(cfg *config.Config) error {
	tokens, err := pushTokens(cfg.String("push.tokens_file"), s.subscription.Topics)
	anonymous := cfg.Bool("push.allow_anonymous")
	switch {
	case err != nil:
		return err
	case len(tokens) > 0 && anonymous:
		return usagef("push.tokens_file and push.allow_anonymous do not go together")
	case len(tokens) > 0:
		s.tokens, s.access = len(tokens), newPushAccess(tokens)
		s.authorize = s.access.authorize
		return nil
	case !s.local:
		return usagef("%s can be reached from other machines, and nobody would be asked who they are; "+
			"give --tokens-file, or listen on 127.0.0.1", s.listen)
	case !anonymous:
		return usagef("nobody would be asked who they are; give --tokens-file, or --allow-anonymous to let everybody on this machine see every topic")
	}
	s.authorize = authorizeAll(s.subscription.Topics)
	return nil
}

// commaList returns the elements of a comma-separated list.
func commaList(text string) []string {
	var list []string
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}
