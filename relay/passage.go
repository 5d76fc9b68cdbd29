package relay

import "sync"

// passage lets any number of sends through side by side, or one alone, in the order in which they
// come. It is a fair sync.RWMutex whose waiters a test with virtual time can see waiting.
type passage struct {
	mu      sync.Mutex
	changed *sync.Cond
	tickets int // given out
	turn    int // the ticket that may enter
	inside  int // side by side
}

func newPassage() *passage {
	p := &passage{}
	p.changed = sync.NewCond(&p.mu)
	return p
}

// enter waits for the way to be free. leave must be called with the same value afterwards.
func (p *passage) enter(alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ticket := p.tickets
	p.tickets++
	for ticket != p.turn || alone && p.inside > 0 {
		p.changed.Wait()
	}
	if alone {
		return // nobody else's turn comes before it leaves
	}
	p.inside++
	p.pass()
}

func (p *passage) leave(alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.pass()
		return
	}
	p.inside--
	p.changed.Broadcast()
}

// pass gives the turn to the next one.
func (p *passage) pass() {
	p.turn++
	p.changed.Broadcast()
}
