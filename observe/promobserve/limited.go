package promobserve

import "sync"

// other stands for the values that are too many.
const other = "other"

// limited lets so many different values of a label through.
type limited struct {
	limit int

	mu   sync.RWMutex
	seen map[string]bool
}

func newLimited(limit int) *limited { return &limited{limit: limit, seen: make(map[string]bool)} }

// value returns v, or "other" if it is new and there were enough already.
func (l *limited) value(v string) string {
	if v == "" {
		return v
	}
	l.mu.RLock()
	known, full := l.seen[v], len(l.seen) >= l.limit
	l.mu.RUnlock()
	switch {
	case known:
		return v
	case full:
		return other
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.seen[v] && len(l.seen) >= l.limit {
		return other
	}
	l.seen[v] = true
	return v
}
