package push

import (
	"bytes"
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// frameOf returns an event in the format of Server-Sent Events.
func frameOf(e Event) []byte {
	var b bytes.Buffer
	switch e.Kind {
	case IdleEvent:
		return []byte(":\n\n") // a comment
	case ConnectedEvent:
		writeField(&b, "event", "connected")
		writeField(&b, "data", e.Connection)
	case ResetEvent:
		writeField(&b, "event", "reset")
		writeField(&b, "data", e.Reason)
	case MessageEvent:
		writeField(&b, "event", e.Message.Type)
		writeData(&b, e.Message)
	}
	if e.ID != "" {
		writeField(&b, "id", e.ID)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// writeField writes a field of one line. A value that would be several lines, or that clients
// ignore, is left out; only messages of other producers have such values.
func writeField(b *bytes.Buffer, name, value string) {
	if !isOneLine(value) {
		return
	}
	b.WriteString(name + ": " + value + "\n")
}

func isOneLine(value string) bool { return !strings.ContainsAny(value, "\r\n\x00") }

// writeData writes a payload, line by line. A message without payload has one empty line, because
// clients drop an event without data.
func writeData(b *bytes.Buffer, m *waybill.Message) {
	if !isText(m.Payload) {
		contentType := m.ContentType
		if !isOneLine(contentType) {
			contentType = ""
		}
		writeField(b, "data", "data:"+contentType+";base64,"+base64.StdEncoding.EncodeToString(m.Payload))
		return
	}
	for line := range bytes.SplitSeq(m.Payload, []byte("\n")) {
		b.WriteString("data: ")
		b.Write(line)
		b.WriteByte('\n')
	}
}

// isText reports whether a payload arrives unchanged as text: a client converts every line break to
// a line feed.
func isText(payload []byte) bool {
	return utf8.Valid(payload) && !bytes.ContainsAny(payload, "\r\x00")
}
