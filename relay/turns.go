package relay

import "slices"

// turns is a queue of lines in which tenants take turns.
type turns struct {
	tenants []string // those that have lines, the next one first
	lines   map[string][]*line
	count   int
}

func (t *turns) push(l *line) {
	tenant := t.enter(l)
	t.lines[tenant] = append(t.lines[tenant], l)
}

// pushFirst adds a line that is the next one when it is its tenant's turn.
func (t *turns) pushFirst(l *line) {
	tenant := t.enter(l)
	t.lines[tenant] = slices.Insert(t.lines[tenant], 0, l)
}

// enter counts a line in, and gives its tenant a turn.
func (t *turns) enter(l *line) (tenant string) {
	tenant = l.queue[0].Message.Tenant
	if t.lines == nil {
		t.lines = make(map[string][]*line)
	}
	if len(t.lines[tenant]) == 0 {
		t.tenants = append(t.tenants, tenant)
	}
	t.count++
	l.listed = true
	return tenant
}

// pop returns the next line of the tenant whose turn it is, nil if there is none.
func (t *turns) pop() *line {
	if len(t.tenants) == 0 {
		return nil
	}
	tenant := t.tenants[0]
	t.tenants = t.tenants[1:]
	waiting := t.lines[tenant]
	l := waiting[0]
	if len(waiting) > 1 {
		t.lines[tenant] = waiting[1:]
		t.tenants = append(t.tenants, tenant)
	} else {
		delete(t.lines, tenant)
	}
	t.count--
	l.listed = false
	return l
}
