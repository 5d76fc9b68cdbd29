package discovery

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/observe"
)

// AnnouncerConfig configures an [Announcer].
type AnnouncerConfig struct {
	// Endpoint is what is announced. Required.
	Endpoint Endpoint

	// Bus is the clients' name for the broker or virtual host. Optional; the default
	// is [DefaultBus].
	Bus string

	// Group is the consumer group that the service is for. Optional; the default is
	// [DefaultGroup].
	Group string

	// SigningKey signs announcements, for clients that trust its public key. Optional.
	SigningKey ed25519.PrivateKey

	// Log receives a record when the announcer begins to listen, and when it cannot. Optional;
	// the default is [slog.Default].
	Log *slog.Logger
}

// Announcer announces an inbox service to clients: when it starts, and in answer to pings.
type Announcer struct {
	transport  Transport
	cfg        AnnouncerConfig
	bus, group string // as words
}

// NewAnnouncer returns an announcer. The error names the field of cfg that is wrong; a URL with a
// user or a query is refused, because announcements are public.
func NewAnnouncer(t Transport, cfg AnnouncerConfig) (*Announcer, error) {
	if t == nil {
		return nil, invalid("Transport", "is required")
	}
	if cfg.SigningKey != nil && len(cfg.SigningKey) != ed25519.PrivateKeySize {
		return nil, invalid("AnnouncerConfig.SigningKey", "has %d bytes, a key has %d", len(cfg.SigningKey), ed25519.PrivateKeySize)
	}
	setDefault(&cfg.Bus, DefaultBus)
	setDefault(&cfg.Group, DefaultGroup)
	setDefault(&cfg.Log, slog.Default())
	a := &Announcer{transport: t, cfg: cfg}
	var err error
	if a.cfg.Endpoint, err = cfg.Endpoint.validate(); err != nil {
		return nil, err
	}
	if a.bus, err = word("AnnouncerConfig.Bus", cfg.Bus); err != nil {
		return nil, err
	}
	if a.group, err = word("AnnouncerConfig.Group", cfg.Group); err != nil {
		return nil, err
	}
	if _, err = a.announcement(""); err != nil {
		return nil, invalid("AnnouncerConfig.Endpoint", "%v", err)
	}
	return a, nil
}

// The pauses before an announcer that has lost its broker listens again.
const (
	firstPause   = time.Second
	longestPause = 30 * time.Second
)

// Run announces the service and answers pings until ctx ends; then it returns nil. If the
// connection to the broker is lost it reconnects, and announces the service again. A permanent
// error of the transport, such as an exchange of another type, is returned.
func (a *Announcer) Run(ctx context.Context) error {
	pause := firstPause
	for {
		err := a.listen(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if waybill.IsPermanent(err) {
			return err
		}
		a.cfg.Log.WarnContext(ctx, "inbox service is not announced", "error", observe.ErrorText(err), "next_try", pause)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
		pause = min(2*pause, longestPause)
	}
}

func (a *Announcer) listen(ctx context.Context) error {
	unasked, err := a.announcement("")
	if err != nil {
		return err
	}
	a.cfg.Log.InfoContext(ctx, "inbox service is announced", "name", a.cfg.Endpoint.Name, "url", a.cfg.Endpoint.URL,
		"bus", a.cfg.Bus, "group", a.cfg.Group)
	return a.transport.Listen(ctx, a.bus, a.group, unasked, a.answer)
}

// answer returns nil for a body that is no valid ping.
func (a *Announcer) answer(correlationID string, body []byte) []byte {
	var p ping
	switch {
	case correlationID == "" || len(correlationID) > maxCorrelationLen || !isPlain(correlationID), len(body) > maxBodyLen:
		return nil
	case json.Unmarshal(body, &p) != nil, p.Kind != kindInbox, p.Version != versionV1:
		return nil
	}
	reply, err := a.announcement(correlationID)
	if err != nil { // cannot happen: one without the id was encoded before
		return nil
	}
	return reply
}

func (a *Announcer) announcement(correlationID string) ([]byte, error) {
	return encode(a.cfg.Endpoint, a.bus, a.group, correlationID, a.cfg.SigningKey, time.Now())
}
