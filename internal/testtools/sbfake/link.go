package sbfake

import (
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// link is one link. One that only carries requests has no entity to receive from or send to.
type link struct {
	session *session
	handle  uint32
	name    string
	address string
	reply   list // the fields of the answer to its attach
	sends   bool // the server sends on it
	settled bool // what the server sends counts as settled
	request bool // it belongs to a pair for requests
	entity  *entity
	hold    *hold // nil unless it receives from a session

	credit  uint32
	count   uint32 // deliveries so far
	drain   bool
	partial []byte // of a message that comes in several frames
	id      uint32 // of that delivery
	format  uint32 // of its message
}

const (
	roleField, sourceField, targetField = 2, 5, 6

	// clientCredit is the credit of a client that sends; it is renewed at half of it.
	clientCredit = 1000
)

// attach creates a link, or refuses it.
func (ss *session) attach(f list) {
	l := &link{
		session: ss, name: text(f.at(0)), handle: as[uint32](f.at(1)), sends: as[bool](f.at(roleField)),
	}
	source, target := as[list](as[described](f.at(sourceField)).value), as[list](as[described](f.at(targetField)).value)
	l.address = text(target.at(0))
	if l.sends {
		l.address = text(source.at(0))
		const settledMode = 1
		l.settled = or(f.at(3), uint8(2)) == settledMode
	}
	l.reply = list{
		l.name, l.handle, !l.sends, or(f.at(3), uint8(2)), as[uint8](f.at(4)),
		described{typeSource, source}, described{typeTarget, target}, nil, nil, nil, ss.conn.server.cfg.MaxMessageSize,
	}
	if l.sends {
		l.reply[9] = uint32(0) // where deliveries begin to be counted
	}
	ss.links[l.handle] = l
	ss.conn.server.links = append(ss.conn.server.links, l)
	l.open(source)
}

// open finds what the link is for.
func (l *link) open(source list) {
	lower := strings.ToLower(l.address)
	l.request = lower == "$cbs" || strings.HasSuffix(lower, managementPath)
	if l.request {
		l.attached()
		return
	}
	server := l.session.conn.server
	l.entity = server.find(l.address)
	filter, asked := sessionAsked(source)
	switch {
	case l.entity == nil, l.sends && l.entity.topic:
		l.refuse("amqp:not-found", "the messaging entity could not be found")
	case !l.sends:
		l.attached()
	case asked != l.entity.settings.Sessions:
		l.refuse("amqp:not-allowed", "sessions are for entities that require them, and only for those")
	case asked:
		l.hold = &hold{until: server.now().Add(server.cfg.SessionWait)}
		l.hold.id, l.hold.named = filter.(string)
	default:
		l.attached()
	}
}

// sessionAsked returns the value of the session filter among a source's filters.
func sessionAsked(source list) (value any, ok bool) {
	const filters = 7
	v, ok := as[table](source.at(filters)).get(sessionFilter).(described)
	return v.value, ok
}

// attached answers the attach.
func (l *link) attached() {
	reply := slices.Clone(l.reply)
	if l.hold != nil {
		source := slices.Clone(as[list](as[described](reply[sourceField]).value))
		source[7] = table{{symbol(sessionFilter), described{sessionFilterCode, l.hold.id}}}
		reply[sourceField] = described{typeSource, source}
		reply = append(reply, nil, nil, table{{symbol("com.microsoft:locked-until-utc"), ticks(l.hold.until)}})
	}
	l.session.send(codeAttach, reply, nil)
	if !l.sends {
		l.credit = clientCredit
		l.session.sendFlow(l)
	}
}

// refuse answers the attach with a link to nothing, and detaches it, as AMQP requires.
func (l *link) refuse(condition, description string) {
	reply := slices.Clone(l.reply)
	reply[sourceField], reply[targetField] = nil, nil
	l.session.send(codeAttach, reply, nil)
	l.detach(failure(condition, description))
}

// detach ends the link, with an error or nil.
func (l *link) detach(err any) {
	l.drop()
	l.session.send(codeDetach, list{l.handle, true, err}, nil)
}

// drop forgets the link. What it has locked stays locked, unless by a session.
func (l *link) drop() {
	delete(l.session.links, l.handle)
	server := l.session.conn.server
	server.links = slices.DeleteFunc(server.links, func(other *link) bool { return other == l })
	for id, origin := range l.session.origin {
		if origin == l {
			delete(l.session.open, id)
			delete(l.session.origin, id)
		}
	}
	l.release()
}

// pump delivers what is ready, as far as the client has credit.
func (l *link) pump(now time.Time) {
	if !l.sends || l.request || l.entity == nil {
		return
	}
	if l.hold != nil && !l.hold.held {
		l.accept(now)
		return
	}
	for l.credit > 0 {
		it := l.entity.take(l, now)
		if it == nil {
			break
		}
		if l.settled {
			delete(l.entity.locked, it.lock)
		}
		l.send(it.stamped(), it.lock, it)
		l.yield()
	}
	if l.drain && l.credit > 0 {
		l.count += l.credit
		l.credit = 0
		l.session.sendFlow(l)
	}
}

// yield gives all other links a turn before the next one of this link.
func (l *link) yield() {
	server := l.session.conn.server
	if i := slices.Index(server.links, l); i >= 0 {
		server.links = append(slices.Delete(server.links, i, i+1), l)
	}
}

// send writes one message in as many frames as needed. it is nil for answers to requests.
func (l *link) send(m *amqp.Message, tag uuid, it *item) {
	b, err := m.MarshalBinary()
	if err != nil {
		l.detach(failure("amqp:internal-error", "the message cannot be encoded"))
		return
	}
	ss := l.session
	id := ss.nextOut
	ss.nextOut++
	l.credit--
	l.count++
	if it != nil && !l.settled {
		ss.open[id], ss.origin[id] = it.lock, l
	}
	for more := true; more; {
		n := min(maxBody, len(b))
		more = n < len(b)
		ss.send(codeTransfer, list{l.handle, id, tag[:], uint32(0), l.settled || it == nil, more}, b[:n])
		b = b[n:]
	}
}

// batchFormat is the message format of a batch: each data section is a message.
const batchFormat = 0x80013700

// transfer takes a frame of a message, and reports whether the connection stays open.
func (ss *session) transfer(f frame) bool {
	ss.nextIn++
	l := ss.links[as[uint32](f.fields.at(0))]
	if l == nil {
		return true
	}
	if len(l.partial) == 0 { // what follows leaves these out
		l.id, l.format = as[uint32](f.fields.at(1)), as[uint32](f.fields.at(3))
	}
	l.partial = append(l.partial, f.body...)
	if as[bool](f.fields.at(5)) {
		return true
	}
	raw := l.partial
	l.partial = nil
	l.count++
	if l.credit--; l.credit < clientCredit/2 {
		l.credit = clientCredit
		ss.sendFlow(l)
	}
	state := l.receive(raw, l.format == batchFormat)
	server := ss.conn.server
	if server.cut && !l.request {
		server.cut = false
		ss.conn.net.Close()
		return false
	}
	if !as[bool](f.fields.at(4)) {
		ss.send(codeDisposition, list{true, l.id, l.id, true, state}, nil)
	}
	return true
}

// receive stores one message, or all of a batch or none, or executes a request, and returns the
// outcome.
func (l *link) receive(raw []byte, batch bool) described {
	m := &amqp.Message{}
	if err := m.UnmarshalBinary(raw); err != nil {
		return rejected(failure("amqp:decode-error", "the message cannot be decoded"))
	}
	if l.request {
		l.answer(m)
		return described{stateAccepted, list{}}
	}
	server := l.session.conn.server
	if server.refusals > 0 {
		server.refusals--
		return rejected(server.refusal)
	}
	messages := []*amqp.Message{m}
	if batch {
		messages = messages[:0]
		for _, data := range m.Data {
			part := &amqp.Message{}
			if err := part.UnmarshalBinary(data); err != nil {
				return rejected(failure("amqp:decode-error", "a message of a batch cannot be decoded"))
			}
			messages = append(messages, part)
		}
	}
	if slices.ContainsFunc(messages, l.entity.lacksSession) {
		return rejected(failure("amqp:not-allowed", "the entity requires a session id"))
	}
	for _, m := range messages {
		if _, err := l.entity.enqueue(m, l.session.conn.server.now()); err != nil {
			return rejected(failure("amqp:internal-error", "the message cannot be stored"))
		}
	}
	return described{stateAccepted, list{}}
}

func rejected(err described) described { return described{stateRejected, list{err}} }
