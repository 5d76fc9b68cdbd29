package natsbroker

import (
	"strings"

	"github.com/waybill-go/waybill"
)

// toToken stands between the prefix and a destination. No topic may start with it.
const toToken = "_to."

// subjectOf returns the subject of a topic or, if to is set, of a destination, and false if
// there is none.
func subjectOf(prefix, topic, to string) (string, bool) {
	address := topic
	if to != "" {
		address = toToken + to
	} else if strings.HasPrefix(topic, toToken) {
		return "", false
	}
	return prefix + address, validSubject(address)
}

// setAddress is the inverse of subjectOf. A subject without the prefix is kept whole, as the
// topic.
func setAddress(m *waybill.Message, prefix, subject string) {
	address := strings.TrimPrefix(subject, prefix)
	if to, ok := strings.CutPrefix(address, toToken); ok {
		m.To = to
		return
	}
	m.Topic = address
}

// validSubject reports whether s is a subject to publish to: tokens between dots, none of
// them empty, without space, control character or wildcard.
func validSubject(s string) bool {
	for token := range strings.SplitSeq(s, ".") {
		if token == "" {
			return false
		}
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == '*' || r == '>'
	})
}

// covers reports whether every subject that matches inner also matches outer. Both may have
// wildcards.
func covers(outer, inner string) bool {
	for {
		o, outerRest, outerMore := strings.Cut(outer, ".")
		i, innerRest, innerMore := strings.Cut(inner, ".")
		switch {
		case o == ">":
			return true
		case i == ">":
			return false
		case o != "*" && o != i:
			return false
		case !outerMore || !innerMore:
			return outerMore == innerMore
		}
		outer, inner = outerRest, innerRest
	}
}
