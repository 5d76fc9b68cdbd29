package pgstore

import (
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// encodeArray turns the slices that our statements take into PostgreSQL's array literals,
// which every database/sql driver passes on; other arguments stay as they are. pgx's own
// interface takes the slices themselves.
func encodeArray(arg any) any {
	switch list := arg.(type) {
	case []string:
		return literal(list, quoteElement)
	case []*string:
		return literal(list, nullable(quoteElement))
	case [][]byte:
		return literal(list, func(b []byte) string {
			if b == nil {
				return "NULL"
			}
			return `"\\x` + hex.EncodeToString(b) + `"`
		})
	case []int:
		return literal(list, strconv.Itoa)
	case []int32:
		return literal(list, func(n int32) string { return strconv.Itoa(int(n)) })
	case []int64:
		return literal(list, func(n int64) string { return strconv.FormatInt(n, 10) })
	case []float64:
		return literal(list, func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) })
	case []bool:
		return literal(list, strconv.FormatBool)
	case []*time.Time:
		return literal(list, nullable(func(t time.Time) string { return `"` + t.UTC().Format(time.RFC3339Nano) + `"` }))
	}
	return arg
}

func literal[T any](list []T, element func(T) string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, v := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(v))
	}
	b.WriteByte('}')
	return b.String()
}

func nullable[T any](element func(T) string) func(*T) string {
	return func(v *T) string {
		if v == nil {
			return "NULL"
		}
		return element(*v)
	}
}

var elementEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quoteElement(s string) string { return `"` + elementEscapes.Replace(s) + `"` }
