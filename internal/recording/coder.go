package recording

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/relaycore"
)

// maxStrings is how many different strings of a segment are written only once.
const maxStrings = 4096

// errDamaged is the error of a file whose content is invalid.
var errDamaged = errors.New("the recording is damaged")

// coder writes values to a buffer, or reads them from it: each method does both, so that writing and
// reading cannot differ. After the first error of reading everything is zero.
type coder struct {
	buf     []byte // the data written, or left to read
	reading bool
	err     error

	index map[string]uint64 // of strings written so far in the segment
	table []string          // those read

	before relaycore.Message // the one before in a claim
}

// restart forgets the strings of the previous segment.
func (c *coder) restart() {
	if !c.reading {
		c.index = make(map[string]uint64)
	}
	c.table = nil
}

func (c *coder) failf(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: "+format, append([]any{errDamaged}, args...)...)
	}
	c.buf = nil
}

func (c *coder) uint(v *uint64) {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, *v)
		return
	}
	got, n := binary.Uvarint(c.buf)
	if n <= 0 {
		c.failf("a number is cut off")
		n = 0
	}
	*v, c.buf = got, c.buf[n:]
}

// number codes a signed number.
func number[T ~int | ~int64](c *coder, v *T) {
	if !c.reading {
		c.buf = binary.AppendVarint(c.buf, int64(*v))
		return
	}
	got, n := binary.Varint(c.buf)
	if n <= 0 {
		c.failf("a number is cut off")
		n = 0
	}
	*v, c.buf = T(got), c.buf[n:]
}

// flags codes up to 64 booleans.
func (c *coder) flags(list ...*bool) {
	var bits uint64
	for i, b := range list {
		if *b {
			bits |= 1 << i
		}
	}
	c.uint(&bits)
	for i, b := range list {
		*b = bits&(1<<i) != 0
	}
}

// count codes the length of a list. Each element takes at least a byte, which bounds the length when reading.
func (c *coder) count(n *int) {
	v := uint64(*n)
	c.uint(&v)
	if v > uint64(len(c.buf)) && c.reading {
		c.failf("a list has %d elements, more than there are bytes", v)
		v = 0
	}
	*n = int(v)
}

// list codes a slice. When reading it grows with the elements that exist.
func list[T any](c *coder, s *[]T, each func(*coder, *T)) {
	n := len(*s)
	c.count(&n)
	if !c.reading {
		for i := range *s {
			each(c, &(*s)[i])
		}
		return
	}
	*s = nil
	for range n {
		if c.err != nil {
			return
		}
		var v T
		each(c, &v)
		*s = append(*s, v)
	}
}

// text codes a string that is rarely repeated.
func (c *coder) text(s *string) {
	n := len(*s)
	c.count(&n)
	if !c.reading {
		c.buf = append(c.buf, *s...)
		return
	}
	*s, c.buf = string(c.buf[:n]), c.buf[n:]
}

// name codes a string that is often repeated: 0 and the string, 1 and a string that gets the next
// number, or 2 plus its number.
func (c *coder) name(s *string) {
	if c.reading {
		c.readName(s)
		return
	}
	at, known := c.index[*s]
	switch {
	case known:
		at += 2
	case len(c.index) < maxStrings:
		c.index[*s] = uint64(len(c.index))
		at = 1
	}
	c.uint(&at)
	if at < 2 {
		c.text(s)
	}
}

func (c *coder) readName(s *string) {
	var at uint64
	c.uint(&at)
	switch {
	case at >= 2 && at-2 < uint64(len(c.table)):
		*s = c.table[at-2]
		return
	case at >= 2:
		c.failf("a string has number %d, and there are %d", at-2, len(c.table))
		return
	}
	c.text(s)
	if at == 1 && len(c.table) < maxStrings {
		c.table = append(c.table, *s)
	}
}

// uuid codes the bytes of a UUID.
func (c *coder) uuid(raw *[16]byte, s *string) {
	switch {
	case !c.reading:
		c.buf = append(c.buf, raw[:]...)
	case len(c.buf) < len(raw):
		c.failf("an id is cut off")
	default:
		*s, c.buf = unpackUUID(c.buf[:len(raw)]), c.buf[len(raw):]
	}
}

// hexValues are the values of lower-case hexadecimal digits, and noDigit for all other bytes.
var hexValues = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for i, digit := range "0123456789abcdef" {
		values[digit] = byte(i)
	}
	return values
}()

const noDigit = 0xff

// packUUID reports whether s is a UUID in its usual form, and puts its bytes into raw.
func packUUID(raw *[16]byte, s string) bool {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return false
	}
	at := 0
	for i := range raw {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			at++
		}
		high, low := hexValues[s[at]], hexValues[s[at+1]]
		if high|low == noDigit {
			return false
		}
		raw[i] = high<<4 | low
		at += 2
	}
	return true
}

func unpackUUID(raw []byte) string {
	s := hex.EncodeToString(raw)
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// errRecorded stands for an error whose text was not recorded.
var errRecorded = errors.New("its text was not recorded")

// failure codes an error: whether there is one, and its kind.
func (c *coder) failure(err *error) {
	var kind uint64
	if *err != nil {
		kind = 1 + uint64(waybill.KindOf(*err))
	}
	c.uint(&kind)
	if c.reading {
		*err = errorOf(kind)
	}
}

func errorOf(kind uint64) error {
	switch kind {
	case 0:
		return nil
	case 1 + uint64(waybill.Permanent):
		return waybill.PermanentError("", errRecorded)
	case 1 + uint64(waybill.Unavailable):
		return waybill.UnavailableError(errRecorded)
	case 1 + uint64(waybill.Conflict):
		return waybill.ConflictError(errRecorded)
	}
	return errRecorded
}
