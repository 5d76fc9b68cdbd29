package mysqlstore

import "context"

// answered runs COMMIT or ROLLBACK, and waits for it until ctx ends. database/sql gives them no context, and a
// server that has no room for its binary log, or cannot be reached over the network, may block them
// indefinitely. Whether the transaction is committed, or will be, is then unknown, as when the connection is
// lost; the connection stays in use until the server answers.
func answered(ctx context.Context, run func() error) error {
	if ctx.Done() == nil {
		return run()
	}
	answer := make(chan error, 1)
	go func() { answer <- run() }()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
