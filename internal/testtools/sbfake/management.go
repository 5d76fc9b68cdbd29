package sbfake

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

// request is one request that came in by link, and its answer.
type request struct {
	link   *link
	entity *entity
	body   map[string]any
	now    time.Time

	code   int32
	reason string
	answer map[string]any
}

// answer executes a request and sends the answer on the other link of the pair.
func (l *link) answer(m *amqp.Message) {
	back := l.partner(m)
	if back == nil {
		return
	}
	r := &request{link: l, body: as[map[string]any](m.Value), now: l.session.conn.server.now(), code: http.StatusOK, reason: "OK", answer: map[string]any{}}
	operation := as[string](m.ApplicationProperties["operation"])
	if l.address == "$cbs" {
		r.code = http.StatusAccepted // every token is valid
	} else {
		path, _ := strings.CutSuffix(strings.ToLower(l.address), managementPath)
		if r.entity = l.session.conn.server.find(path); r.entity == nil {
			r.refuse(http.StatusNotFound, "the messaging entity could not be found")
		} else {
			r.do(operation)
		}
	}
	response := &amqp.Message{
		Properties: &amqp.MessageProperties{CorrelationID: m.Properties.MessageID},
		ApplicationProperties: map[string]any{
			"status-code": r.code, "statusCode": r.code, // each client reads one of them
			"status-description": r.reason, "statusDescription": r.reason,
		},
		Value: r.answer,
	}
	if condition := r.condition(); condition != "" {
		response.ApplicationProperties["errorCondition"] = amqp.ErrCond(condition)
	}
	back.credit = max(back.credit, 1)
	back.send(response, uuid{}, nil)
}

// partner returns the link by which the client wants the answer to m.
func (l *link) partner(m *amqp.Message) *link {
	for _, other := range l.session.links {
		if !other.sends || !other.request || !strings.EqualFold(other.address, l.address) {
			continue
		}
		target := text(as[list](as[described](other.reply[targetField]).value).at(0))
		if m.Properties != nil && (m.Properties.ReplyTo == nil || target == "" || *m.Properties.ReplyTo == target) {
			return other
		}
	}
	return nil
}

func (r *request) refuse(code int32, reason string) { r.code, r.reason = code, reason }

// condition returns AMQP's name for the error.
func (r *request) condition() string {
	switch r.code {
	case http.StatusNotFound:
		return "amqp:not-found"
	case http.StatusGone:
		return "com.microsoft:message-lock-lost"
	}
	return ""
}

func (r *request) do(operation string) {
	switch operation {
	case "com.microsoft:renew-lock":
		r.renewLocks()
	case "com.microsoft:renew-session-lock":
		r.renewSession()
	case "com.microsoft:update-disposition":
		r.settle()
	case "com.microsoft:schedule-message":
		r.schedule()
	case "com.microsoft:cancel-scheduled-message":
		wanted := as[[]int64](r.body["sequence-numbers"])
		r.entity.scheduled = slices.DeleteFunc(r.entity.scheduled, func(it *item) bool { return slices.Contains(wanted, it.sequence) })
	case "com.microsoft:peek-message":
		r.peek()
	case "com.microsoft:receive-by-sequence-number":
		r.receiveDeferred()
	default:
		r.refuse(http.StatusNotImplemented, "the operation is not known")
	}
}

// items returns the locked messages that the lock tokens of the request stand for, or refuses it.
func (r *request) items() (items []*item) {
	for _, token := range uuidsOf(r.body["lock-tokens"]) {
		it := r.entity.locked[swapped(token)]
		if it == nil {
			r.refuse(http.StatusGone, "the lock is not valid")
			return nil
		}
		items = append(items, it)
	}
	return items
}

// uuidsOf returns a list of UUIDs, which clients send as an array or as a list.
func uuidsOf(v any) (ids []uuid) {
	for _, id := range as[[]amqp.UUID](v) {
		ids = append(ids, uuid(id))
	}
	for _, id := range as[[]any](v) {
		ids = append(ids, uuid(as[amqp.UUID](id)))
	}
	return ids
}

// swapped converts between the bytes of a delivery tag, which are a GUID of .NET with its first
// three numbers little-endian, and those of a UUID.
func swapped(u uuid) uuid {
	slices.Reverse(u[0:4])
	slices.Reverse(u[4:6])
	slices.Reverse(u[6:8])
	return u
}

func (r *request) renewLocks() {
	expirations := []time.Time{}
	for _, it := range r.items() {
		it.until = r.now.Add(r.entity.settings.LockDuration)
		r.link.session.conn.server.renewals++
		expirations = append(expirations, it.until)
	}
	r.answer["expirations"] = expirations
}

func (r *request) renewSession() {
	holder := r.entity.sessions[as[string](r.body["session-id"])]
	if holder == nil {
		r.refuse(http.StatusGone, "the lock of the session is not valid")
		return
	}
	holder.hold.until = r.now.Add(r.entity.settings.LockDuration)
	r.link.session.conn.server.renewals++
	r.answer["expiration"] = holder.hold.until
}

func (r *request) settle() {
	for _, it := range r.items() {
		switch as[string](r.body["disposition-status"]) {
		case "completed":
			delete(r.entity.locked, it.lock)
		case "abandoned":
			r.entity.giveBack(it, true)
		case "defered": // sic
			r.entity.putAside(it)
		case "suspended":
			r.entity.bury(it, as[string](r.body["deadletter-reason"]), as[string](r.body["deadletter-description"]))
		default:
			r.refuse(http.StatusBadRequest, "the disposition is not known")
		}
	}
}

func (r *request) schedule() {
	sequences := []int64{}
	for _, entry := range as[[]any](r.body["messages"]) {
		m := &amqp.Message{}
		if err := m.UnmarshalBinary(as[[]byte](as[map[string]any](entry)["message"])); err != nil {
			r.refuse(http.StatusBadRequest, "a message cannot be decoded")
			return
		}
		sequence, err := r.entity.enqueue(m, r.now)
		if err != nil {
			r.refuse(http.StatusInternalServerError, "a message cannot be stored")
			return
		}
		sequences = append(sequences, sequence)
	}
	r.answer["sequence-numbers"] = sequences
}

// peek returns messages in whatever state, without locking them.
func (r *request) peek() {
	all := slices.Concat(r.entity.ready, r.entity.scheduled, r.entity.deferred)
	for _, it := range r.entity.locked {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b *item) int { return cmp.Compare(a.sequence, b.sequence) })
	from, count := as[int64](r.body["from-sequence-number"]), int(as[int32](r.body["message-count"]))
	found := []any{}
	for _, it := range all {
		if it.sequence < from || len(found) == count {
			continue
		}
		if raw, err := it.stamped().MarshalBinary(); err == nil {
			found = append(found, map[string]any{"message": raw})
		}
	}
	if len(found) == 0 {
		r.refuse(http.StatusNoContent, "there is no message")
	}
	r.answer["messages"] = found
}

func (r *request) receiveDeferred() {
	found := []any{}
	for _, it := range r.entity.takeDeferred(as[[]int64](r.body["sequence-numbers"])) {
		r.entity.lock(it, nil, r.now)
		if raw, err := it.stamped().MarshalBinary(); err == nil {
			found = append(found, map[string]any{"message": raw, "lock-token": amqp.UUID(swapped(it.lock))})
		}
	}
	r.answer["messages"] = found
}
