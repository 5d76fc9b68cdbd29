package sbfake

import (
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// Settings are those of a queue, a topic or a subscription. The zero value of each stands for the
// service's default.
type Settings struct {
	LockDuration     time.Duration // how long a message or a session stays locked; 1 minute
	MaxDeliveryCount int           // after this many deliveries a message is dead-lettered; 10
	DuplicateWindow  time.Duration // how long message ids are remembered; 0: they are not
	Sessions         bool          // messages must have a session id, and receivers lock sessions
}

func (s Settings) withDefaults() Settings {
	if s.LockDuration == 0 {
		s.LockDuration = time.Minute
	}
	if s.MaxDeliveryCount == 0 {
		s.MaxDeliveryCount = 10
	}
	return s
}

// entity is a queue, a topic, a subscription, or the dead-letter queue of one. The server's
// mutex guards it.
type entity struct {
	name     string
	settings Settings
	label    label
	topic    bool
	subs     []*entity // of a topic
	dead     *entity   // nil for a topic and for a dead-letter queue

	sequence  int64
	ready     []*item // by sequence
	scheduled []*item
	deferred  []*item
	locked    map[uuid]*item
	seen      map[any]time.Time // message ids, when duplicates are detected
	sessions  map[string]*link  // which link holds a session
}

// item is one message of one entity.
type item struct {
	message    *amqp.Message
	sequence   int64
	deliveries uint32 // that have ended without a settlement, or with an abandon
	at         time.Time
	lock       uuid
	until      time.Time
	link       *link // the link that has locked it
}

func newEntity(name string, s Settings, topic bool) *entity {
	e := &entity{
		name: name, settings: s.withDefaults(), topic: topic,
		locked: make(map[uuid]*item), seen: make(map[any]time.Time), sessions: make(map[string]*link),
	}
	if !topic {
		e.dead = &entity{
			name: name + deadLetterPath, settings: Settings{LockDuration: e.settings.LockDuration, MaxDeliveryCount: 1 << 30},
			locked: make(map[uuid]*item), sessions: make(map[string]*link),
		}
	}
	return e
}

const (
	deadLetterPath   = "/$deadletterqueue"
	managementPath   = "/$management"
	subscriptionPath = "/subscriptions/"
)

// find returns the entity at a path, or nil. Names are not case-sensitive.
func (s *Server) find(path string) *entity {
	path = strings.ToLower(strings.TrimPrefix(path, "/"))
	path, dead := strings.CutSuffix(path, deadLetterPath)
	e := s.entities[path]
	if dead && e != nil {
		return e.dead
	}
	return e
}

// declare adds an entity unless there is one, and reports whether it did.
func (s *Server) declare(path string, settings Settings, topic bool) bool {
	key := strings.ToLower(path)
	if s.entities[key] != nil {
		return false
	}
	e := newEntity(path, settings, topic)
	s.entities[key] = e
	if parent, _, ok := strings.Cut(key, subscriptionPath); ok {
		s.entities[parent].subs = append(s.entities[parent].subs, e)
	}
	return true
}

// enqueue stores a message, or a copy of it in each subscription. It returns the sequence number,
// or 0 for a topic or a duplicate.
func (e *entity) enqueue(m *amqp.Message, now time.Time) (int64, error) {
	if e.duplicate(m, now) {
		return 0, nil
	}
	if !e.topic {
		return e.store(m, now), nil
	}
	raw, err := m.MarshalBinary()
	if err != nil {
		return 0, err
	}
	for _, sub := range e.subs {
		clone := &amqp.Message{}
		if err := clone.UnmarshalBinary(raw); err != nil {
			return 0, err
		}
		sub.store(clone, now)
	}
	return 0, nil
}

func (e *entity) duplicate(m *amqp.Message, now time.Time) bool {
	if e.settings.DuplicateWindow == 0 || m.Properties == nil || m.Properties.MessageID == nil {
		return false
	}
	at, known := e.seen[m.Properties.MessageID]
	if known && now.Sub(at) < e.settings.DuplicateWindow {
		return true
	}
	e.seen[m.Properties.MessageID] = now
	return false
}

func (e *entity) store(m *amqp.Message, now time.Time) int64 {
	e.sequence++
	it := &item{message: m, sequence: e.sequence, at: now}
	if at, ok := m.Annotations["x-opt-scheduled-enqueue-time"].(time.Time); ok && at.After(now) {
		it.at = at
		e.scheduled = append(e.scheduled, it)
	} else {
		e.ready = append(e.ready, it)
	}
	return it.sequence
}

// lacksSession reports whether e refuses a message because it has no session id.
func (e *entity) lacksSession(m *amqp.Message) bool {
	if e.topic {
		return slices.ContainsFunc(e.subs, func(sub *entity) bool { return sub.lacksSession(m) })
	}
	return e.settings.Sessions && sessionOf(m) == nil
}

// sessionOf returns the session id of a message, or nil.
func sessionOf(m *amqp.Message) *string {
	if m.Properties == nil {
		return nil
	}
	return m.Properties.GroupID
}

// take locks the next message for l, or returns nil.
func (e *entity) take(l *link, now time.Time) *item {
	i := slices.IndexFunc(e.ready, l.wants)
	if i < 0 {
		return nil
	}
	it := e.ready[i]
	e.ready = slices.Delete(e.ready, i, i+1)
	e.lock(it, l, now)
	return it
}

func (e *entity) lock(it *item, l *link, now time.Time) {
	_, _ = rand.Read(it.lock[:]) // never fails
	it.until, it.link = now.Add(e.settings.LockDuration), l
	e.locked[it.lock] = it
}

// stamped returns the item's message with the properties that the service sets.
func (it *item) stamped() *amqp.Message {
	m := it.message
	if m.Header == nil {
		m.Header = &amqp.MessageHeader{}
	}
	m.Header.DeliveryCount = it.deliveries
	if m.Annotations == nil {
		m.Annotations = amqp.Annotations{}
	}
	m.Annotations["x-opt-sequence-number"] = it.sequence
	m.Annotations["x-opt-enqueued-time"] = it.at
	m.Annotations["x-opt-locked-until"] = it.until
	return m
}

// giveBack unlocks a message; counted says that the delivery counts toward the maximum.
func (e *entity) giveBack(it *item, counted bool) {
	delete(e.locked, it.lock)
	it.link = nil
	if counted {
		it.deliveries++
	}
	if int(it.deliveries) >= e.settings.MaxDeliveryCount {
		e.bury(it, "MaxDeliveryCountExceeded", "the message was delivered too often")
		return
	}
	at, _ := slices.BinarySearchFunc(e.ready, it.sequence, func(r *item, n int64) int { return int(r.sequence - n) })
	e.ready = slices.Insert(e.ready, at, it)
}

// bury moves a message to the dead-letter queue.
func (e *entity) bury(it *item, reason, description string) {
	delete(e.locked, it.lock)
	if e.dead == nil {
		return
	}
	it.annotate("DeadLetterReason", reason)
	it.annotate("DeadLetterErrorDescription", description)
	e.dead.sequence++
	e.dead.ready = append(e.dead.ready, &item{message: it.message, sequence: e.dead.sequence, at: it.at})
}

// annotate sets an application property.
func (it *item) annotate(name string, value any) {
	if it.message.ApplicationProperties == nil {
		it.message.ApplicationProperties = make(map[string]any)
	}
	it.message.ApplicationProperties[name] = value
}

// tick moves scheduled messages that are due and unlocks what was locked for too long.
func (e *entity) tick(now time.Time) {
	e.scheduled = slices.DeleteFunc(e.scheduled, func(it *item) bool {
		if it.at.After(now) {
			return false
		}
		e.sequence++
		it.sequence = e.sequence
		e.ready = append(e.ready, it)
		return true
	})
	for _, it := range e.locked {
		if !e.settings.Sessions && now.After(it.until) {
			e.giveBack(it, true)
		}
	}
}
