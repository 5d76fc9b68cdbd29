package inboxhttp

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"sync"
	"unicode/utf8"
)

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKeptBuffer is the largest buffer that is kept for the next request.
const maxKeptBuffer = 64 << 10

func keepBuffer(b *bytes.Buffer) {
	if b.Cap() <= maxKeptBuffer {
		b.Reset()
		buffers.Put(b)
	}
}

// readBody reads the body of r into b. The content type must be JSON: a form on another site can't
// send it without this server's consent.
func readBody(r *http.Request, b *bytes.Buffer, limit int) error {
	if kind := r.Header.Get("Content-Type"); kind != jsonType {
		if media, _, err := mime.ParseMediaType(kind); err != nil || media != jsonType {
			return refusef(http.StatusUnsupportedMediaType, "the content type must be %s", jsonType)
		}
	}
	n := r.ContentLength
	if n <= int64(limit) { // even if it is unknown, which is -1
		var err error
		if n, err = b.ReadFrom(io.LimitReader(r.Body, int64(limit)+1)); err != nil {
			return refusef(http.StatusBadRequest, "the body could not be read")
		}
	}
	if n > int64(limit) {
		return refusef(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", limit)
	}
	return nil
}

const jsonType = "application/json"

// decode reads a body. Unknown fields are ignored, since later versions may have them. Ambiguous
// text, which is not Unicode, is refused; the error quotes nothing.
func decode[T any](body []byte) (v T, err error) {
	if !utf8.Valid(body) || hasLoneSurrogate(body) {
		return v, refusef(http.StatusBadRequest, "the body is not valid Unicode")
	}
	err = json.Unmarshal(body, &v)
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return v, refused
	case errors.As(err, &kind) && kind.Field != "":
		return v, refusef(http.StatusBadRequest, "%s is not of the type that it must be", kind.Field)
	case errors.As(err, &syntax):
		return v, refusef(http.StatusBadRequest, "the body is not JSON, at byte %d", syntax.Offset)
	case err != nil:
		return v, refusef(http.StatusBadRequest, "the body is not a JSON object")
	}
	return v, nil
}

// hasLoneSurrogate reports whether a JSON text escapes half of a surrogate pair, which is no
// character; encoding/json replaces each by U+FFFD, so that different keys would become the same.
func hasLoneSurrogate(text []byte) bool {
	for {
		i := bytes.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return false
		}
		text = text[i:]
		switch unit := codeUnit(text); {
		case unit >= 0xdc00 && unit < 0xe000:
			return true
		case unit >= 0xd800 && unit < 0xdc00:
			low := codeUnit(text[6:])
			if low < 0xdc00 || low >= 0xe000 {
				return true
			}
			text = text[12:]
		default:
			text = text[2:]
		}
	}
}

// codeUnit returns the value of \uXXXX at the beginning of text, 0 if there is none.
func codeUnit(text []byte) uint64 {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return unit
}
