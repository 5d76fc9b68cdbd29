package observe

import "errors"

// BatchError holds the error of each message of a batch, in order: nil for a success.
type BatchError []error

// Err returns e as an error, or nil if all messages succeeded.
func (e BatchError) Err() error {
	for _, err := range e {
		if err != nil {
			return e
		}
	}
	return nil
}

func (e BatchError) Error() string   { return errors.Join(e...).Error() }
func (e BatchError) Unwrap() []error { return e }
