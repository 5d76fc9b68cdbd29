package dashboard

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/waybill-go/waybill"
)

// query is a filter from the URL of a page.
type query struct {
	Asked url.Values
	Wrong string // why it can't be answered
}

// Given returns a field of the filter as it was given.
func (q query) Given(name string) string { return q.Asked.Get(name) }

// refuses reports whether err is about the filter, and keeps it.
func (q *query) refuses(err error) bool {
	var refused *waybill.InvalidError
	if !errors.As(err, &refused) {
		return false
	}
	q.Wrong = refused.Field + " " + refused.Reason
	return true
}

// numberOf reads a number of a URL, 0 if it is not given.
func numberOf(q url.Values, name string) (int64, error) {
	if q.Get(name) == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return 0, invalidField(name, "is not a number")
	}
	return n, nil
}

// pageOf returns the first n of a list that was read with one more, and the last of them if there is another page.
func pageOf[T any](list []T, n int) (page []T, last *T) {
	if len(list) <= n {
		return list, nil
	}
	return list[:n], &list[n-1]
}
