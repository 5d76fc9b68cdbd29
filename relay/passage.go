package relay

import "sync"

// passage lets any number of sends through side by side, or one alone. It is a sync.RWMutex whose
// waiters a test with virtual time can see waiting. Who wants to be alone goes before those who
// come later. newPassage makes one.
type passage struct {
	mu      sync.Mutex
	changed *sync.Cond
	inside  int  // side by side
	alone   bool // somebody is alone, or will be when the others have left
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
	for p.alone {
		p.changed.Wait()
	}
	if !alone {
		p.inside++
		return
	}
	p.alone = true
	for p.inside > 0 {
		p.changed.Wait()
	}
}

func (p *passage) leave(alone bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.alone = false
	} else {
		p.inside--
	}
	p.changed.Broadcast()
}
