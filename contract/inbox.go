package contract

import (
	"context"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// Inbox keeps what consumers have processed, in transactions of type Tx, with their attempts and dead letters.
// Stores implement it; all methods are safe for concurrent use.
type Inbox[Tx any] interface {
	inbox.Once[Tx]

	// FailedAttempts returns what SaveAttempt and SaveStarts stored last, or the zero value.
	FailedAttempts(ctx context.Context, key inbox.Key) (Attempts, error)

	// SaveAttempt stores a failed attempt in a transaction of its own. If the message is dead-lettered
	// later, its history contains it. Starts are 0 again.
	SaveAttempt(ctx context.Context, key inbox.Key, a FailedAttempt) error

	// SaveStarts stores, in a transaction of its own, the number of unfinished attempts. 0 says that
	// the last of them has ended without being counted; if nothing is stored for the message it then
	// stores nothing.
	SaveStarts(ctx context.Context, key inbox.Key, starts int) error

	// BuryMessage stores, in one transaction, the dead letter and an inbox record that says
	// so, and clears the attempts. It returns false, and stores nothing, if the inbox has a
	// record of the message already.
	BuryMessage(ctx context.Context, l inbox.Letter) (bool, error)

	// TakeRequeued takes the first requeued dead letter of the consumer that is due. No other call
	// takes it during the lease; after that it is due again, unless it was run.
	// It returns false if there is none.
	TakeRequeued(ctx context.Context, consumer string, lease time.Duration) (Requeued, bool, error)

	// RunRequeued runs fn in the transaction that removes the taken dead letter, turns its inbox record
	// into a processed one, and clears the attempts. It returns false, and runs nothing, if the letter
	// no longer exists or is being run elsewhere. If fn fails everything is rolled back, the letter is
	// dead again with the new error, tried by node, and the attempts are cleared; with an unavailable
	// error or a conflict it stays requeued, and starts are 0 again. If the message was processed in
	// another way in the meantime, fn is not run, and the letter is resolved as one that already had
	// its effect.
	RunRequeued(ctx context.Context, r Requeued, node string, fn func(ctx context.Context, tx Tx) error) (bool, error)
}

// Attempts is what a store knows about the attempts at a message.
type Attempts struct {
	Count  int           // failed attempts so far
	Wait   time.Duration // time until the next one is due; 0 if it is
	Starts int           // unfinished attempts since
	Error  string        // of the last failed attempt
}

// FailedAttempt is one failed attempt at a message.
type FailedAttempt struct {
	Count int           // failed attempts, with this one
	Wait  time.Duration // from now until the next one is due
	Error string        // as by observe.ErrorText
	Node  string        // of the consumer
	Took  time.Duration // 0 if it is not known
}

// Requeued is a dead letter that its consumer has taken, to run it again.
type Requeued struct {
	Number  int64     // of the letter
	Key     inbox.Key // that it was buried under
	Message waybill.Message
}
