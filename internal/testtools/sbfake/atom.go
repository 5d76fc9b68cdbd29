package sbfake

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// redirect sends every request to one address without TLS.
type redirect struct{ address string }

// RoundTrip implements [http.RoundTripper].
func (r redirect) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.URL.Scheme, request.URL.Host = "http", r.address
	return http.DefaultTransport.RoundTrip(request)
}

// entry is what is sent and returned for one entity: an Atom entry with a description of its kind.
type entry struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom entry"`
	Title   string   `xml:"title"`
	Content struct {
		Type         string       `xml:"type,attr"`
		Queue        *description `xml:"QueueDescription"`
		Topic        *description `xml:"TopicDescription"`
		Subscription *description `xml:"SubscriptionDescription"`
	} `xml:"content"`
}

// feed is a list of entries.
type feed struct {
	XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
	Entries []entry  `xml:"entry"`
}

// description holds the settings that this server supports, and what it reports about an entity.
type description struct {
	Namespace                           string `xml:"xmlns,attr"`
	LockDuration                        string `xml:",omitempty"`
	RequiresDuplicateDetection          string `xml:",omitempty"`
	RequiresSession                     string `xml:",omitempty"`
	DuplicateDetectionHistoryTimeWindow string `xml:",omitempty"`
	MaxDeliveryCount                    string `xml:",omitempty"`
	label

	CreatedAt, UpdatedAt, AccessedAt string  `xml:",omitempty"`
	MessageCount                     string  `xml:",omitempty"`
	CountDetails                     *counts `xml:",omitempty"`
}

// label holds the settings that this server keeps and reports, without any effect.
type label struct {
	MaxSizeInMegabytes               string `xml:",omitempty"`
	MaxMessageSizeInKilobytes        string `xml:",omitempty"`
	DefaultMessageTimeToLive         string `xml:",omitempty"`
	DeadLetteringOnMessageExpiration string `xml:",omitempty"`
	AutoDeleteOnIdle                 string `xml:",omitempty"`
	EnablePartitioning               string `xml:",omitempty"`
}

// counts are the numbers of messages that an entity has of each kind. A locked one is active.
type counts struct {
	ActiveMessageCount, DeadLetterMessageCount, ScheduledMessageCount int
	TransferMessageCount, TransferDeadLetterMessageCount              int // always 0
}

const serviceBusNamespace = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"

// serveAtom handles the HTTP interface: GET, PUT and DELETE of one entity, and GET of all
// subscriptions to a topic.
func (s *Server) serveAtom(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/")
	e := s.find(path)
	switch {
	case r.Method == http.MethodPut && e != nil:
		http.Error(w, "<Error><Code>409</Code><Detail>the entity exists</Detail></Error>", http.StatusConflict)
	case r.Method == http.MethodPut:
		s.create(w, r, path)
	case path == "$namespaceinfo":
		_, _ = io.WriteString(w, namespaceInfo) // the client has gone
	case s.listed(path) != nil:
		s.listed(path).list(w)
	case e == nil:
		http.Error(w, "<Error><Code>404</Code><Detail>no such entity</Detail></Error>", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.remove(path, e)
	default:
		describe(w, http.StatusOK, e)
	}
}

const namespaceInfo = `<entry xmlns="http://www.w3.org/2005/Atom"><title>fake</title><content type="application/xml">` +
	`<NamespaceInfo xmlns="` + serviceBusNamespace + `"><CreatedTime>2026-01-01T00:00:00Z</CreatedTime>` +
	`<MessagingSKU>Premium</MessagingSKU><ModifiedTime>2026-01-01T00:00:00Z</ModifiedTime><Name>fake</Name>` +
	`<NamespaceType>Messaging</NamespaceType></NamespaceInfo></content></entry>`

func (s *Server) create(w http.ResponseWriter, r *http.Request, path string) {
	var sent entry
	if err := xml.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&sent); err != nil {
		http.Error(w, "the entry cannot be read", http.StatusBadRequest)
		return
	}
	d, topic := sent.Content.Queue, false
	switch {
	case sent.Content.Topic != nil:
		d, topic = sent.Content.Topic, true
	case sent.Content.Subscription != nil:
		d = sent.Content.Subscription
		parent, _, _ := strings.Cut(strings.ToLower(path), subscriptionPath)
		if p := s.entities[parent]; p == nil || !p.topic {
			http.Error(w, "<Error><Code>404</Code><Detail>no such topic</Detail></Error>", http.StatusNotFound)
			return
		}
	case d == nil:
		http.Error(w, "the entry describes nothing", http.StatusBadRequest)
		return
	}
	s.declare(path, d.settings(), topic)
	e := s.find(path)
	e.label = d.label
	describe(w, http.StatusCreated, e)
}

// remove ends an entity, what belongs to it, and the links to it.
func (s *Server) remove(path string, e *entity) {
	delete(s.entities, strings.ToLower(path))
	for _, parent := range s.entities {
		for i, sub := range parent.subs {
			if sub == e {
				parent.subs = append(parent.subs[:i:i], parent.subs[i+1:]...)
				break
			}
		}
	}
	for _, sub := range e.subs {
		s.remove(sub.name, sub)
	}
	for _, l := range append([]*link(nil), s.links...) {
		if l.entity == e {
			l.detach(failure("amqp:not-found", "the messaging entity was deleted"))
		}
	}
}

// listed returns the topic whose subscriptions a path stands for, or nil.
func (s *Server) listed(path string) *entity {
	topic, ok := strings.CutSuffix(strings.ToLower(path)+"/", subscriptionPath)
	if e := s.entities[topic]; ok && e != nil && e.topic {
		return e
	}
	return nil
}

// list writes the subscriptions to a topic, all on one page.
func (e *entity) list(w http.ResponseWriter) {
	var f feed
	for _, sub := range e.subs {
		f.Entries = append(f.Entries, sub.entry())
	}
	write(w, http.StatusOK, f)
}

// describe writes the entry of an entity.
func describe(w http.ResponseWriter, status int, e *entity) { write(w, status, e.entry()) }

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/atom+xml;charset=utf-8")
	w.WriteHeader(status)
	_ = xml.NewEncoder(w).Encode(answer) // the client has gone
}

func (e *entity) entry() (answer entry) {
	_, sub, ok := strings.Cut(strings.ToLower(e.name), subscriptionPath)
	answer.Title, answer.Content.Type = e.name, "application/xml"
	d := e.description()
	switch {
	case e.topic:
		answer.Content.Topic = d
	case ok:
		answer.Title = e.name[len(e.name)-len(sub):]
		answer.Content.Subscription = d
	default:
		answer.Content.Queue = d
	}
	return answer
}

func (e *entity) description() *description {
	const noTime = "0001-01-01T00:00:00"
	d := &description{
		Namespace:                  serviceBusNamespace,
		RequiresDuplicateDetection: strconv.FormatBool(e.settings.DuplicateWindow > 0),
		label:                      e.label,
		CreatedAt:                  noTime, UpdatedAt: noTime, AccessedAt: noTime,
		MessageCount: strconv.Itoa(len(e.ready) + len(e.locked) + len(e.scheduled)),
		CountDetails: &counts{ActiveMessageCount: len(e.ready) + len(e.locked), ScheduledMessageCount: len(e.scheduled)},
	}
	if e.dead != nil {
		d.CountDetails.DeadLetterMessageCount = len(e.dead.ready)
	}
	if e.settings.DuplicateWindow > 0 {
		d.DuplicateDetectionHistoryTimeWindow = formatDuration(e.settings.DuplicateWindow)
	}
	if !e.topic {
		d.LockDuration = formatDuration(e.settings.LockDuration)
		d.RequiresSession = strconv.FormatBool(e.settings.Sessions)
		d.MaxDeliveryCount = strconv.Itoa(e.settings.MaxDeliveryCount)
	}
	return d
}

func (d *description) settings() Settings {
	s := Settings{LockDuration: parseDuration(d.LockDuration), Sessions: d.RequiresSession == "true"}
	s.MaxDeliveryCount, _ = strconv.Atoi(d.MaxDeliveryCount)
	if d.RequiresDuplicateDetection == "true" {
		const byDefault = 10 * time.Minute
		s.DuplicateWindow = parseDuration(d.DuplicateDetectionHistoryTimeWindow)
		if s.DuplicateWindow == 0 {
			s.DuplicateWindow = byDefault
		}
	}
	return s
}

// formatDuration writes d as ISO 8601 has it, in seconds; parseDuration reads hours, minutes and
// seconds.
func formatDuration(d time.Duration) string {
	return fmt.Sprintf("PT%gS", d.Seconds())
}

func parseDuration(text string) time.Duration {
	rest, ok := strings.CutPrefix(text, "PT")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(strings.ToLower(rest))
	if err != nil {
		return 0
	}
	return d
}
