package sbfake

import "time"

// sessionFilter is the link filter by which a receiver asks for a session, by name or, with no
// value, for the next that is free; sessionFilterCode is its descriptor.
const (
	sessionFilter     = "com.microsoft:session-filter"
	sessionFilterCode = 0x137000000c
)

// hold is a link's claim to a session.
type hold struct {
	id    string
	named bool // the client asked for this one
	held  bool
	until time.Time // of the lock, or, before it is held, how long the client waits
}

// wants reports whether a ready message may go to l.
func (l *link) wants(it *item) bool {
	if l.hold == nil {
		return true
	}
	id := sessionOf(it.message)
	return l.hold.held && id != nil && *id == l.hold.id
}

// accept gives l a session if one is free, and attaches it. It reports whether l has stopped
// waiting, whether with a session or without.
func (l *link) accept(now time.Time) bool {
	id, ok := l.freeSession()
	switch {
	case ok:
		l.hold.id, l.hold.held = id, true
		l.hold.until = now.Add(l.entity.settings.LockDuration)
		l.entity.sessions[id] = l
		l.attached()
	case l.hold.named:
		l.refuse("com.microsoft:session-cannot-be-locked", "the session is locked by another receiver")
	case now.After(l.hold.until):
		l.refuse("com.microsoft:timeout", "no session became free")
	default:
		return false
	}
	return true
}

// freeSession returns the session that l asks for, or the first with messages, if it is not held.
func (l *link) freeSession() (string, bool) {
	if l.hold.named {
		return l.hold.id, l.entity.sessions[l.hold.id] == nil
	}
	for _, it := range l.entity.ready {
		if id := sessionOf(it.message); id != nil && l.entity.sessions[*id] == nil {
			return *id, true
		}
	}
	return "", false
}

// release ends l's claim; its unsettled messages are delivered to the next holder of the session.
func (l *link) release() {
	if l.hold == nil || !l.hold.held {
		return
	}
	l.hold.held = false
	delete(l.entity.sessions, l.hold.id)
	for _, it := range l.entity.locked {
		if it.link == l {
			l.entity.giveBack(it, true)
		}
	}
}

// expire takes the session from l if its lock has run out.
func (l *link) expire(now time.Time) {
	if l.hold != nil && l.hold.held && now.After(l.hold.until) {
		l.detach(failure("com.microsoft:session-lock-lost", "the lock of the session has expired"))
	}
}

// ticks returns t in .NET's unit: 100 nanoseconds since the year 1.
func ticks(t time.Time) int64 {
	const unixEpoch = 621_355_968_000_000_000
	return t.UnixNano()/100 + unixEpoch
}
