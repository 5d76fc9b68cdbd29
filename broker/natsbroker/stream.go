package natsbroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/waybill-go/waybill"
)

// apiTimeout bounds one request to the JetStream API.
const apiTimeout = 5 * time.Second

// ensureStream creates the stream if it is missing and checks one that exists.
func (b *Broker) ensureStream(ctx context.Context) error {
	err := b.checkStream(ctx)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	err = b.createStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return b.checkStream(ctx) // another process was faster, with other settings
	}
	return err
}

func (b *Broker) createStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	_, err := b.js.CreateStream(ctx, b.cfg.stream())
	return classify(fmt.Sprintf("create stream %q", b.cfg.Stream), err)
}

// all returns the subject that matches all messages.
func (c Config) all() string { return c.SubjectPrefix + ">" }

func (c Config) stream() jetstream.StreamConfig {
	s := jetstream.StreamConfig{
		Name:       c.Stream,
		Subjects:   []string{c.all()},
		Storage:    jetstream.FileStorage,
		Retention:  jetstream.LimitsPolicy,
		Discard:    jetstream.DiscardNew, // refuse new messages, never drop accepted ones
		Replicas:   c.Replicas,
		MaxAge:     max(c.MaxAge, 0),
		MaxBytes:   -1,
		Duplicates: c.DuplicateWindow,
	}
	if c.MaxBytes > 0 {
		s.MaxBytes = c.MaxBytes
	}
	return s
}

// checkStream reports what keeps the stream from holding the messages of every group.
func (b *Broker) checkStream(ctx context.Context) error {
	info, err := b.streamInfo(ctx)
	if err != nil {
		return err
	}
	seen := redeliveryOf(*info)
	b.redelivery.Store(&seen)
	switch {
	case !b.cfg.heldBy(info):
		return invalidf("SubjectPrefix", "is %q, but stream %q exists and holds %q, not %q",
			b.cfg.SubjectPrefix, b.cfg.Stream, info.Subjects, b.cfg.all())
	case info.Retention == jetstream.WorkQueuePolicy:
		return invalidf("Stream", "is %q, which has the retention work queue: it keeps a message for one group only", b.cfg.Stream)
	case info.NoAck:
		return invalidf("Stream", "is %q, which has confirmations switched off (no_ack)", b.cfg.Stream)
	}
	return nil
}

// heldBy reports whether a stream holds all messages.
func (c Config) heldBy(s *jetstream.StreamConfig) bool {
	return slices.ContainsFunc(s.Subjects, func(subject string) bool { return covers(subject, c.all()) })
}

// streamInfo asks for the stream's configuration. It wraps jetstream.ErrStreamNotFound if
// there is none.
func (b *Broker) streamInfo(ctx context.Context) (*jetstream.StreamConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s, err := b.js.Stream(ctx, b.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("natsbroker: stream %q: %w", b.cfg.Stream, err)
	}
	if err != nil {
		return nil, classify(fmt.Sprintf("look up stream %q", b.cfg.Stream), err)
	}
	return &s.CachedInfo().Config, nil
}

// whyNoAnswer finds out why no stream answered on subjects: the stream does not hold them, which
// concerns only those messages, or it is missing or does not answer now, which is an outage. A missing
// stream is created as [Open] would. It returns a function that gives the error for each subject.
func (b *Broker) whyNoAnswer(ctx context.Context) (verdict func(subject string) error) {
	info, err := b.streamInfo(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = b.replaceStream(ctx, err)
	}
	return func(subject string) error {
		switch {
		case err != nil:
			return err
		case !slices.ContainsFunc(info.Subjects, func(s string) bool { return covers(s, subject) }):
			return waybill.PermanentError(waybill.ReasonUnroutable,
				fmt.Errorf("natsbroker: stream %q does not hold subject %q", b.cfg.Stream, subject))
		}
		return waybill.UnavailableError(fmt.Errorf("natsbroker: stream %q does not answer", b.cfg.Stream))
	}
}

// replaceStream recreates a stream that is gone, unless DeclareNothing is set. The error, for the
// messages that did not find it, is unavailable in any case.
func (b *Broker) replaceStream(ctx context.Context, missing error) error {
	if b.cfg.DeclareNothing {
		return waybill.UnavailableError(missing)
	}
	if err := b.ensureStream(ctx); err != nil {
		return waybill.UnavailableError(fmt.Errorf("%w; and it cannot be created: %w", missing, err))
	}
	return waybill.UnavailableError(fmt.Errorf("%w: it was created again", missing))
}
