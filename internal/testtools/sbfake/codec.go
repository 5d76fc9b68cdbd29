package sbfake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"
)

// The Go types that represent types of AMQP for which Go has none. All others are represented
// directly: uint32 is a uint, string a string, []byte a binary, time.Time a timestamp, bool, nil.
type (
	symbol    string
	symbols   []symbol // an array of them
	uuid      [16]byte
	list      []any
	pair      struct{ key, value any }
	table     []pair // a map, in order
	described struct {
		code  uint64 // 0 if the descriptor is a name
		value any
	}
)

// get returns the value under a name, or nil.
func (t table) get(name string) any {
	for _, p := range t {
		if text(p.key) == name {
			return p.value
		}
	}
	return nil
}

// at returns the i-th field, or nil: fields at the end may be left out.
func (l list) at(i int) any {
	if i < len(l) {
		return l[i]
	}
	return nil
}

// text returns a string or a symbol as a string, anything else as "".
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case symbol:
		return string(v)
	}
	return ""
}

// as returns v if it is a T, else the zero value.
func as[T any](v any) T {
	t, _ := v.(T)
	return t
}

// or returns v if it is a T, else other.
func or[T any](v any, other T) T {
	if t, ok := v.(T); ok {
		return t
	}
	return other
}

var errType = errors.New("sbfake: a Go type that has no AMQP type")

// encode appends v to b, in the longest form of its type unless it is a descriptor.
func encode(b []byte, v any) ([]byte, error) {
	order := binary.BigEndian
	switch v := v.(type) {
	case nil:
		return append(b, 0x40), nil
	case bool:
		if v {
			return append(b, 0x41), nil
		}
		return append(b, 0x42), nil
	case uint8:
		return append(b, 0x50, v), nil
	case uint16:
		return order.AppendUint16(append(b, 0x60), v), nil
	case uint32:
		return order.AppendUint32(append(b, 0x70), v), nil
	case uint64:
		return order.AppendUint64(append(b, 0x80), v), nil
	case int32:
		return order.AppendUint32(append(b, 0x71), uint32(v)), nil
	case int64:
		return order.AppendUint64(append(b, 0x81), uint64(v)), nil
	case time.Time:
		return order.AppendUint64(append(b, 0x83), uint64(v.UnixMilli())), nil
	case uuid:
		return append(append(b, 0x98), v[:]...), nil
	case []byte:
		return encodeBytes(append(b, 0xb0), string(v)), nil
	case string:
		return encodeBytes(append(b, 0xb1), v), nil
	case symbol:
		return encodeBytes(append(b, 0xb3), string(v)), nil
	}
	return encodeCompound(b, v)
}

func encodeBytes(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func encodeCompound(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case described:
		if v.code <= math.MaxUint8 { // clients recognize frames only in this form
			return encode(append(b, 0x00, 0x53, byte(v.code)), v.value)
		}
		return encode(binary.BigEndian.AppendUint64(append(b, 0x00, 0x80), v.code), v.value)
	case symbols:
		body := []byte{0xb3}
		for _, s := range v {
			body = encodeBytes(body, string(s))
		}
		return encodeCounted(append(b, 0xf0), len(v), body), nil
	case list:
		body, err := encodeAll(v...)
		return encodeCounted(append(b, 0xd0), len(v), body), err
	case table:
		var flat []any
		for _, p := range v {
			flat = append(flat, p.key, p.value)
		}
		body, err := encodeAll(flat...)
		return encodeCounted(append(b, 0xd1), len(flat), body), err
	}
	return b, fmt.Errorf("%w: %T", errType, v)
}

func encodeAll(values ...any) (b []byte, err error) {
	for _, v := range values {
		if b, err = encode(b, v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func encodeCounted(b []byte, count int, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	return append(binary.BigEndian.AppendUint32(b, uint32(count)), body...)
}

var (
	errShort = errors.New("sbfake: a value ends too early")
	errCode  = errors.New("sbfake: a type code that is not known")
	errDepth = errors.New("sbfake: values are nested too deep")
)

// maxDepth is how deep values may be nested.
const maxDepth = 32

// decoder reads values from b. After the first error it returns zero values.
type decoder struct {
	b     []byte
	depth int
	err   error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.b = nil
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

// number reads an unsigned number of n bytes.
func (d *decoder) number(n uint64) (v uint64) {
	for _, c := range d.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// value reads one value with its type code.
func (d *decoder) value() any {
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		d.fail(errDepth)
	}
	return d.body(byte(d.number(1)))
}

// body reads the value of a type whose code was read.
func (d *decoder) body(code byte) any {
	switch code {
	case 0x00:
		descriptor, _ := d.value().(uint64)
		return described{descriptor, d.value()}
	case 0x40:
		return nil
	case 0x41, 0x42:
		return code == 0x41
	case 0x56:
		return d.number(1) == 1
	case 0x98:
		var u uuid
		copy(u[:], d.take(16))
		return u
	case 0x83:
		return time.UnixMilli(int64(d.number(8)))
	case 0x72:
		return math.Float32frombits(uint32(d.number(4)))
	case 0x82:
		return math.Float64frombits(d.number(8))
	case 0xa0, 0xb0:
		return append([]byte{}, d.take(d.number(width(code)))...)
	case 0xa1, 0xb1:
		return string(d.take(d.number(width(code))))
	case 0xa3, 0xb3:
		return symbol(d.take(d.number(width(code))))
	case 0x45:
		return list{}
	case 0xc0, 0xd0, 0xc1, 0xd1, 0xe0, 0xf0:
		return d.compound(code)
	}
	return d.integer(code)
}

// width returns how many bytes of length precede a value: codes of 0xb0, 0xd0 and 0xf0 on have
// four.
func width(code byte) uint64 {
	if code&0x10 != 0 {
		return 4
	}
	return 1
}

func (d *decoder) integer(code byte) any {
	switch code {
	case 0x50:
		return uint8(d.number(1))
	case 0x51:
		return int8(d.number(1))
	case 0x60:
		return uint16(d.number(2))
	case 0x61:
		return int16(d.number(2))
	case 0x43:
		return uint32(0)
	case 0x52:
		return uint32(d.number(1))
	case 0x70:
		return uint32(d.number(4))
	case 0x44:
		return uint64(0)
	case 0x53:
		return d.number(1)
	case 0x80:
		return d.number(8)
	case 0x54:
		return int32(int8(d.number(1)))
	case 0x71:
		return int32(d.number(4))
	case 0x55:
		return int64(int8(d.number(1)))
	case 0x81:
		return int64(d.number(8))
	}
	d.fail(errCode)
	return nil
}

// compound reads a list, a map or an array, which comes back as a list.
func (d *decoder) compound(code byte) any {
	w := width(code)
	d.number(w) // its size in bytes
	count := d.number(w)
	if count > uint64(len(d.b)) {
		d.fail(errShort)
		return nil
	}
	values := make(list, 0, count)
	element := byte(0)
	if code >= 0xe0 {
		element = byte(d.number(1))
	}
	for range count {
		if code >= 0xe0 {
			values = append(values, d.body(element))
		} else {
			values = append(values, d.value())
		}
	}
	if code&0x0f == 0 {
		return values
	}
	t := make(table, 0, count/2)
	for i := 1; i < len(values); i += 2 {
		t = append(t, pair{values[i-1], values[i]})
	}
	return t
}
