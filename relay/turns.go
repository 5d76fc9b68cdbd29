package relay

// turns is a queue of lines in which tenants take turns.
type turns struct {
	tenants []string // those that have lines, the next one first
	lines   map[string][]*line
	count   int
}

func (t *turns) push(l *line) {
	tenant := l.queue[0].Message.Tenant
	if t.lines == nil {
		t.lines = make(map[string][]*line)
	}
	waiting := t.lines[tenant]
	if len(waiting) == 0 {
		t.tenants = append(t.tenants, tenant)
	}
	t.lines[tenant] = append(waiting, l)
	t.count++
	l.listed = true
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
