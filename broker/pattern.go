package broker

import (
	"fmt"
	"strings"

	"github.com/waybill-go/waybill"
)

// Pattern matches topics or types: one name, or, with "*" at its end, all names that begin with
// what is before it. "order.*" matches "order.placed" and "order.item.added", "*" all names.
type Pattern string

// Validate returns an [*waybill.InvalidError] for the named field if the pattern is empty, too
// long, or has a "*" elsewhere than at its end.
func (p Pattern) Validate(field string) error {
	switch {
	case p == "":
		return &waybill.InvalidError{Field: field, Reason: "is empty"}
	case len(p) > waybill.MaxTopicLen:
		return &waybill.InvalidError{Field: field, Reason: fmt.Sprintf("has %d bytes, the limit is %d", len(p), waybill.MaxTopicLen)}
	case strings.Contains(strings.TrimSuffix(string(p), "*"), "*"):
		return &waybill.InvalidError{Field: field, Reason: "has a '*' that is not its end"}
	}
	return nil
}

// Match reports whether the pattern matches a name.
func (p Pattern) Match(name string) bool {
	if prefix, open := strings.CutSuffix(string(p), "*"); open {
		return strings.HasPrefix(name, prefix)
	}
	return name == string(p)
}
