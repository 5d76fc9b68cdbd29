package cli

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/ops"
)

// printPayload shows headers and payload: JSON indented, other text as it is except for
// what could control a terminal, and anything else in hexadecimal.
func (p *program) printPayload(m *waybill.Message) error {
	if len(m.Headers) > 0 {
		p.heading("Headers")
		var fields [][2]string
		for _, name := range ops.HeaderNames(m) {
			fields = append(fields, [2]string{name, m.Headers[name]})
		}
		if err := p.printFields(fields); err != nil {
			return err
		}
	}
	p.heading("Payload")
	_, err := fmt.Fprintln(p.stdout, shownPayload(m.Payload))
	return err
}

func shownPayload(payload []byte) string {
	var indented bytes.Buffer
	switch {
	case len(payload) == 0:
		return "(empty)"
	case json.Indent(&indented, payload, "", "  ") == nil:
		return cleanLines(indented.String())
	case utf8.Valid(payload):
		return cleanLines(string(payload))
	}
	return strings.TrimRight(hex.Dump(payload), "\n")
}

// cleanLines is [clean] for a text of several lines, which may be indented by tabs.
func cleanLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		parts := strings.Split(strings.TrimSuffix(line, "\r"), "\t")
		for j := range parts {
			parts[j] = clean(parts[j])
		}
		lines[i] = strings.Join(parts, "\t")
	}
	return strings.Join(lines, "\n")
}
