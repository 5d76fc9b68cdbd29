package sqldb

import (
	"fmt"
	"strconv"
	"time"
)

// Time reads a time that a database keeps as such, or as microseconds since 1970 in UTC.
// NULL is the zero time.
type Time struct{ time.Time }

// Scan implements [database/sql.Scanner].
func (t *Time) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		t.Time = time.Time{}
	case time.Time:
		t.Time = v
	case int64:
		t.Time = time.UnixMicro(v)
	case []byte: // a number, from a driver that leaves reading it to us
		micros, err := strconv.ParseInt(string(v), 10, 64)
		if err != nil {
			return fmt.Errorf("a time is stored as text")
		}
		t.Time = time.UnixMicro(micros)
	default:
		return fmt.Errorf("a time is stored as %T", value)
	}
	return nil
}

// Pointer returns the time in UTC, or nil for the zero time.
func (t Time) Pointer() *time.Time { return Timestamp(t.Time) }

// Micros encodes an argument for a database that keeps times as microseconds since 1970.
func Micros(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UnixMicro()
}
