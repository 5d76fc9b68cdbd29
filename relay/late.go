package relay

import "github.com/waybill-go/waybill/internal/loop"

// LateConfirmer is a [Publisher] whose broker confirms in its own time, over the connection that it
// received the messages on. Its ctx then ends long after PublishTimeout: until the connection is lost,
// which the publisher notices by itself, or the relay's lease, a late confirm settles what it
// confirms, and nothing is sent again before. A publisher that wraps another one passes it on.
type LateConfirmer interface {
	// ConfirmsLate reports whether it is so. It is safe for concurrent use.
	ConfirmsLate() bool
}

// confirmsLate reports whether a publisher is a LateConfirmer; a panic says that it is not.
func confirmsLate(p Publisher) (yes bool) {
	if l, ok := p.(LateConfirmer); ok {
		_ = loop.Protect(func() error {
			yes = l.ConfirmsLate()
			return nil
		})
	}
	return yes
}
