package asbbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/internal/brokerkit"
	"github.com/waybill-go/waybill/request"
)

// maxDeliveries is how often a message may be delivered before the service dead-letters it on its
// own: as often as it allows, because deliveries that met an outage count.
const maxDeliveries = 2000

// topology declares entities by the service's HTTP interface.
type topology struct {
	cfg   Config
	names names
	admin *admin.Client
}

func newTopology(b *Broker) (*topology, error) {
	options := admin.ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{MaxRetries: -1}}}
	if b.cfg.HTTPClient != nil {
		options.Transport = b.cfg.HTTPClient
	}
	client, err := admin.NewClientFromConnectionString(b.connection, &options)
	if err != nil { // not wrapped: the text may quote the key
		return nil, invalid("URL", "is no connection string of Service Bus")
	}
	return &topology{cfg: b.cfg, names: b.names, admin: client}, nil
}

// kind is what an entity is.
type kind string

const (
	topicKind        kind = "topic"
	queueKind        kind = "queue"
	subscriptionKind kind = "subscription"
)

// entity is one that is wanted.
type entity struct {
	kind  kind
	name  string // of the topic, for a subscription
	sub   string // of the subscription
	waits bool   // it is a retry queue: without sessions, and it must detect no duplicates
	reply bool   // it is a reply queue: likewise, and it is deleted when it is idle
}

func (e entity) String() string {
	if e.kind == subscriptionKind {
		return e.name + "/" + e.sub
	}
	return e.name
}

// settings are those of an entity that matter here.
type settings struct {
	sessions   bool
	duplicates time.Duration // 0: duplicates are not detected
	lock       time.Duration // 0: it has none, or the service did not report it
	deliveries int32         // likewise
}

// wanted returns the entities that w needs, each once, parents first.
func (t *topology) wanted(w broker.Wanted) (list []entity) {
	add := func(e entity) { list = append(list, e) }
	for _, topic := range w.Topics {
		add(entity{kind: topicKind, name: t.names.topic(topic)})
	}
	for _, to := range w.Destinations {
		add(entity{kind: queueKind, name: t.names.queue(to)})
	}
	for _, sub := range w.Subscriptions {
		for _, topic := range sub.Topics {
			add(entity{kind: topicKind, name: t.names.topic(topic)})
			add(entity{kind: subscriptionKind, name: t.names.topic(topic), sub: subscriptionName(sub.Group)})
		}
		if sub.To != "" {
			add(entity{kind: queueKind, name: t.names.queue(sub.To), reply: request.IsAddress(sub.To)})
		}
		if !request.IsAddress(sub.To) {
			add(entity{kind: queueKind, name: t.names.retry(sub.Group), waits: true})
		}
	}
	return brokerkit.Unique(list, func(e entity) entity { return e })
}

// settingsOf returns the settings that e is created with.
func (t *topology) settingsOf(e entity) settings {
	s := settings{duplicates: t.cfg.DuplicateWindow, sessions: t.cfg.Sessions, lock: t.cfg.LockDuration, deliveries: maxDeliveries}
	switch {
	case e.kind == topicKind:
		return settings{duplicates: s.duplicates}
	case e.waits:
		s.sessions, s.duplicates = false, 0
	case e.reply: // messages of a dead connection are redelivered soon
		s.sessions, s.duplicates, s.lock = false, 0, minLockDuration
	case e.kind == subscriptionKind:
		s.duplicates = 0 // its topic detects them
	}
	return s
}

// Plan implements [broker.Topology].
func (b *Broker) Plan(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	return brokerkit.Plan(b.plan(ctx, w))
}

// Apply implements [broker.Topology]. It changes nothing that exists: each difference is a
// conflict.
func (b *Broker) Apply(ctx context.Context, w broker.Wanted) ([]broker.Step, error) {
	ctx, cancel := b.within(ctx)
	defer cancel()
	return brokerkit.Apply(b.plan(ctx, w))
}

func (b *Broker) plan(ctx context.Context, w broker.Wanted) (plan []brokerkit.Part, _ error) {
	if err := b.validWanted(w); err != nil {
		return nil, err
	}
	for _, e := range b.topology.wanted(w) {
		step, err := b.topology.step(ctx, e)
		if err != nil {
			return nil, b.declareError(e, err)
		}
		plan = append(plan, brokerkit.Part{Step: step, Make: func() error {
			if err := b.topology.create(ctx, e, b.topology.settingsOf(e)); err != nil {
				return b.declareError(e, err)
			}
			return nil
		}})
	}
	return plan, nil
}

func (b *Broker) validWanted(w broker.Wanted) error {
	for _, topic := range w.Topics {
		if err := validEntity("Wanted.Topics", b.names.topic(topic)); err != nil {
			return err
		}
	}
	for _, to := range w.Destinations {
		if err := validEntity("Wanted.Destinations", b.names.queue(to)); err != nil {
			return err
		}
	}
	for _, sub := range w.Subscriptions {
		if err := b.names.valid(sub); err != nil {
			return err
		}
	}
	return nil
}

// step compares e with what the service has.
func (t *topology) step(ctx context.Context, e entity) (broker.Step, error) {
	step := broker.Step{Kind: string(e.kind), Name: e.String(), Action: broker.Keep}
	want := t.settingsOf(e)
	have, found, err := t.look(ctx, e)
	switch {
	case err != nil:
		return step, err
	case found:
		if step.Detail = want.differences(have); step.Detail != "" {
			step.Action = broker.Conflict
		}
		return step, nil
	}
	step.Action, step.Detail = broker.Create, want.String()
	return step, nil
}

func (s settings) String() string {
	text := fmt.Sprintf("duplicate window %v", s.duplicates)
	if s.lock != 0 {
		text += fmt.Sprintf(", sessions %t, lock %v, %d deliveries", s.sessions, s.lock, s.deliveries)
	}
	return text
}

// differences describes what differs from the wanted settings, "" if nothing does.
func (s settings) differences(have settings) string {
	if s == have {
		return ""
	}
	return fmt.Sprintf("it has %v; wanted: %v", have, s)
}

// fatal says what makes an entity useless or harmful, "" if it can be used.
func (s settings) fatal(e entity, want settings) string {
	switch {
	case e.kind == topicKind:
		return ""
	case s.sessions != want.sessions:
		return fmt.Sprintf("it has RequiresSession %t, and %t is wanted", s.sessions, want.sessions)
	case s.lock != 0 && s.lock < minLockDuration:
		return fmt.Sprintf("it locks messages for %v; at least %v are needed", s.lock, minLockDuration)
	case (e.waits || e.reply) && s.duplicates != 0:
		return "it detects duplicates, among which a retry would be lost"
	}
	return ""
}

// ensure creates what sub receives from, unless somebody else does. The error is permanent if
// something that exists cannot be used.
func (b *Broker) ensure(ctx context.Context, sub consumer.Subscription) error {
	if !b.declares(sub) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, b.cfg.ConnectTimeout)
	defer cancel()
	for _, e := range b.topology.wanted(broker.Wanted{Subscriptions: []consumer.Subscription{sub}}) {
		if err := b.topology.ensure(ctx, e); err != nil {
			return b.declareError(e, err)
		}
	}
	return nil
}

func (t *topology) ensure(ctx context.Context, e entity) error {
	want := t.settingsOf(e)
	have, found, err := t.look(ctx, e)
	switch {
	case err != nil:
		return err
	case !found:
		return t.create(ctx, e, want)
	}
	if reason := have.fatal(e, want); reason != "" {
		return waybill.PermanentError(waybill.ReasonRejected, errors.New(reason))
	}
	return nil
}

func (b *Broker) declareError(e entity, err error) error {
	return b.adminError(fmt.Sprintf("declare %s %v", e.kind, e), err)
}

// adminError says what was being done over the service's HTTP interface. What is not permanent is
// unavailable.
func (b *Broker) adminError(doing string, err error) error {
	var response *azcore.ResponseError
	if errors.As(err, &response) {
		err = statusError(response) // its text is a page long
	}
	wrapped := fmt.Errorf("%s at %s: %w", doing, b.host, err)
	if waybill.IsPermanent(err) {
		return wrapped
	}
	return waybill.UnavailableError(wrapped)
}

// look returns the settings of e, if it exists.
func (t *topology) look(ctx context.Context, e entity) (s settings, found bool, _ error) {
	switch e.kind {
	case topicKind:
		r, err := t.admin.GetTopic(ctx, e.name, nil)
		if r == nil || err != nil {
			return s, false, err
		}
		s.duplicates = window(r.RequiresDuplicateDetection, r.DuplicateDetectionHistoryTimeWindow)
	case queueKind:
		r, err := t.admin.GetQueue(ctx, e.name, nil)
		if r == nil || err != nil {
			return s, false, err
		}
		s = settings{
			sessions:   valueOf(r.RequiresSession),
			duplicates: window(r.RequiresDuplicateDetection, r.DuplicateDetectionHistoryTimeWindow),
			lock:       parseDuration(r.LockDuration),
			deliveries: valueOf(r.MaxDeliveryCount),
		}
	case subscriptionKind:
		r, err := t.admin.GetSubscription(ctx, e.name, e.sub, nil)
		if r == nil || err != nil {
			return s, false, err
		}
		s = settings{
			sessions:   valueOf(r.RequiresSession),
			lock:       parseDuration(r.LockDuration),
			deliveries: valueOf(r.MaxDeliveryCount),
		}
	}
	return s, true, nil
}

func window(detects *bool, d *string) time.Duration {
	if !valueOf(detects) {
		return 0
	}
	return parseDuration(d)
}

// create creates e. One that somebody else has created in the meantime is as good.
func (t *topology) create(ctx context.Context, e entity, s settings) (err error) {
	detects, lock, deliveries := s.duplicates > 0, formatDuration(s.lock), s.deliveries
	var history, idle *string
	if detects {
		d := formatDuration(s.duplicates)
		history = &d
	}
	if e.reply {
		d := formatDuration(replyIdle)
		idle = &d
	}
	switch e.kind {
	case topicKind:
		_, err = t.admin.CreateTopic(ctx, e.name, &admin.CreateTopicOptions{Properties: &admin.TopicProperties{
			RequiresDuplicateDetection: &detects, DuplicateDetectionHistoryTimeWindow: history,
		}})
	case queueKind:
		_, err = t.admin.CreateQueue(ctx, e.name, &admin.CreateQueueOptions{Properties: &admin.QueueProperties{
			RequiresDuplicateDetection: &detects, DuplicateDetectionHistoryTimeWindow: history,
			RequiresSession: &s.sessions, LockDuration: &lock, MaxDeliveryCount: &deliveries, AutoDeleteOnIdle: idle,
		}})
	case subscriptionKind:
		_, err = t.admin.CreateSubscription(ctx, e.name, e.sub, &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{
			RequiresSession: &s.sessions, LockDuration: &lock, MaxDeliveryCount: &deliveries,
		}})
	}
	var response *azcore.ResponseError
	if errors.As(err, &response) && response.StatusCode == http.StatusConflict {
		return nil
	}
	return err
}

func statusError(r *azcore.ResponseError) error {
	text := "the service answered " + strconv.Itoa(r.StatusCode) + " " + http.StatusText(r.StatusCode)
	if r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden {
		return fmt.Errorf("%s; %w", text, errNoRight)
	}
	return errors.New(text)
}
