package loop

import "errors"

// errGoexit is the error of a function that called runtime.Goexit, as t.FailNow does.
var errGoexit = errors.New("the function ended its goroutine by runtime.Goexit")

// Isolate is [Protect] in a separate goroutine: runtime.Goexit becomes an error, too, and ends only
// fn.
func Isolate(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		err := errGoexit
		defer func() { result <- err }()
		err = Protect(fn)
	}()
	return <-result
}

// IsolateValue is [Isolate] for a function that returns a value, the zero value after an error.
func IsolateValue[T any](fn func() (T, error)) (v T, err error) {
	err = Isolate(func() (err error) {
		v, err = fn()
		return err
	})
	return v, err
}
