package main

import "github.com/waybill-go/waybill/internal/relaycore"

// twin is a real store. Each operation on the model's store is also executed on it, at once and by the same
// clock; a method returns an error if its answer differs.
type twin interface {
	// lane returns the lane of a message.
	lane(id, key string) int
	// late reports whether transactions of producers may stay open.
	late() bool
	begin(r *row) error
	commit(r *row) error
	// claim returns which waiting rows the store has chosen.
	claim(n *node, cmd relaycore.Claim) (func(*row) bool, error)
	// called compares the answer to a call. A claim was made already.
	called(n *node, cmd relaycore.Command, answer relaycore.Event) error
	left(n *node) error
	resolved(letter *row, requeue, done bool) error
}

// alike executes something on the twin, if there is one.
func (w *world) alike(do func(t twin) error) {
	if w.twin != nil && w.failed == nil {
		w.check(do(w.twin))
	}
}
