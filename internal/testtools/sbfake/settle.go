package sbfake

import "slices"

// dispose applies the outcomes that a client sends for deliveries that it has received.
func (ss *session) dispose(f list) {
	if receiver := as[bool](f.at(0)); !receiver {
		return // a sender that settles; the server has done so already
	}
	first := as[uint32](f.at(1))
	last := or(f.at(2), first)
	state := as[described](f.at(4))
	for id := first; id <= last; id++ {
		lock, l := ss.open[id], ss.origin[id]
		if l == nil {
			continue
		}
		delete(ss.open, id)
		delete(ss.origin, id)
		outcome := described{stateAccepted, list{}}
		if it := l.entity.locked[lock]; it == nil {
			outcome = rejected(failure("com.microsoft:message-lock-lost", "the lock is not valid"))
		} else {
			l.entity.settle(it, state)
		}
		if settled := as[bool](f.at(3)); !settled {
			ss.send(codeDisposition, list{false, id, id, true, outcome}, nil)
		}
	}
}

// settle ends the delivery of a locked message by an outcome of AMQP.
func (e *entity) settle(it *item, state described) {
	fields := as[list](state.value)
	switch state.code {
	case stateAccepted:
		delete(e.locked, it.lock)
	case stateRejected:
		info := as[table](as[list](as[described](fields.at(0)).value).at(2))
		e.bury(it, text(info.get("DeadLetterReason")), text(info.get("DeadLetterErrorDescription")))
	case stateModify:
		for _, p := range as[table](fields.at(2)) {
			it.annotate(text(p.key), p.value)
		}
		if undeliverable := as[bool](fields.at(1)); undeliverable {
			e.putAside(it)
			return
		}
		e.giveBack(it, true)
	default: // released
		e.giveBack(it, false)
	}
}

// putAside defers a message: it is received again by its sequence number only.
func (e *entity) putAside(it *item) {
	delete(e.locked, it.lock)
	e.deferred = append(e.deferred, it)
}

// takeDeferred locks deferred messages by their sequence numbers.
func (e *entity) takeDeferred(sequences []int64) (found []*item) {
	e.deferred = slices.DeleteFunc(e.deferred, func(it *item) bool {
		if !slices.Contains(sequences, it.sequence) {
			return false
		}
		found = append(found, it)
		return true
	})
	return found
}
