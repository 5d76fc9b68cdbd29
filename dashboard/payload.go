package dashboard

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// Indented JSON is larger than it came, by its depth for each line: what is large or
	// deep is shown as it is.
	maxIndented    = 64 << 10
	maxIndentDepth = 32

	maxShownText  = 128 << 10
	maxShownBytes = 8 << 10 // of what is not text
)

// payloadView is a payload as it is shown.
type payloadView struct {
	Kind string // "JSON", "text" or "bytes"
	Text string
	Size int
	Cut  int // how many bytes are shown, 0 if all are
}

func viewPayload(payload []byte) payloadView {
	v := payloadView{Kind: "text", Size: len(payload)}
	switch {
	case !isText(payload):
		v.Kind = "bytes"
		if len(payload) > maxShownBytes {
			v.Cut, payload = maxShownBytes, payload[:maxShownBytes]
		}
		v.Text = hex.Dump(payload)
		return v
	case len(payload) <= maxIndented && depthOf(payload) <= maxIndentDepth && json.Valid(payload):
		var indented bytes.Buffer
		if json.Indent(&indented, payload, "", "  ") == nil {
			v.Kind, payload = "JSON", indented.Bytes()
		}
	case len(payload) > maxShownText:
		v.Cut, payload = maxShownText, payload[:maxShownText]
	}
	v.Text = strings.ToValidUTF8(string(payload), "") // the cut may be within a character
	return v
}

// isText reports whether payload can be shown, and edited, as text.
func isText(payload []byte) bool {
	return utf8.Valid(payload) && !bytes.ContainsFunc(payload, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' && r != '\r'
	})
}

// depthOf is the deepest nesting of brackets, those in strings included.
func depthOf(payload []byte) int {
	depth, deepest := 0, 0
	for _, b := range payload {
		switch b {
		case '[', '{':
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth--
		}
	}
	return deepest
}

// editable is a payload in a text area, as text if that preserves it byte for byte.
func editable(payload []byte) (text string, isHex bool) {
	if isText(payload) && !bytes.ContainsRune(payload, '\r') {
		return string(payload), false
	}
	return hex.EncodeToString(payload), true
}

// edited reads a text area. Browsers send its line endings as CR LF.
func edited(text string, isHex bool) ([]byte, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if !isHex {
		return []byte(text), nil
	}
	payload, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		return nil, invalidField("Payload", "is not a row of hexadecimal digits, two for each byte")
	}
	return payload, nil
}

// writeHeaders formats headers for a text area, one per line.
func writeHeaders(names []string, headers map[string]string) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, headers[name])
	}
	return b.String()
}

// readHeaders reads what writeHeaders has written.
func readHeaders(text string) (map[string]string, error) {
	headers := make(map[string]string)
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if _, twice := headers[name]; !found || twice {
			return nil, invalidField("Headers", "need a line \"name: value\" each, and each name once")
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}
