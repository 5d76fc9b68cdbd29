package promobserve

import "sync"

// other is the label value for all values above the limit.
const other = "other"

// limited limits the number of different values of a label.
type limited struct {
	limit int

	mu   sync.RWMutex
	seen map[string]bool
}

func newLimited(limit int) *limited { return &limited{limit: limit, seen: make(map[string]bool)} }

// value returns v, or "other" if v is new and the limit is reached.
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
