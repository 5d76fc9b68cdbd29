package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestClassify holds texts as three drivers write them.
func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]waybill.Kind{
		"database is locked (5) (SQLITE_BUSY)":             waybill.Conflict,
		"database is locked (517)":                         waybill.Conflict,
		"database is locked":                               waybill.Conflict,
		"sqlite3: database is locked":                      waybill.Conflict,
		"database table is locked: waybill_outbox":         waybill.Conflict,
		"disk I/O error (10)":                              waybill.Unavailable,
		"sqlite3: database or disk is full":                waybill.Unavailable,
		"unable to open database file: no such file":       waybill.Unavailable,
		"attempt to write a readonly database (8)":         waybill.Unavailable,
		"UNIQUE constraint failed: orders.id (2067)":       waybill.Transient,
		"no such table: waybill_outbox (1)":                waybill.Transient,
		"the order is locked in the database of the vault": waybill.Transient,
	} {
		err := fmt.Errorf("enqueue: %w", errors.New(text))
		if got := waybill.KindOf(classify(err)); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	if got := waybill.KindOf(classify(sql.ErrConnDone)); got != waybill.Unavailable {
		t.Errorf("ErrConnDone is %v, want unavailable", got)
	}
	if got := waybill.KindOf(classifyCaller(sql.ErrConnDone)); got != waybill.Transient {
		t.Errorf("a caller's ErrConnDone is %v, want transient: it may be of another database", got)
	}
	late := fmt.Errorf("database is locked: %w", context.DeadlineExceeded)
	if got := waybill.KindOf(classify(late)); got != waybill.Transient {
		t.Errorf("a passed deadline is %v, want transient", got)
	}
}

// TestClassify_MissingTable says once, and of the store's own statements only, what to do.
func TestClassify_MissingTable(t *testing.T) {
	t.Parallel()
	err := errors.New("no such table: waybill_outbox (1)")
	text := classify(fmt.Errorf("claim: %w", classify(err))).Error()
	if strings.Count(text, "waybill migrate") != 1 {
		t.Errorf("classify() = %s, want it to name \"waybill migrate\" once", text)
	}
	if got := classifyCaller(err); got != err {
		t.Errorf("classifyCaller() = %v, want the error of the caller's own table as it is", got)
	}
}
