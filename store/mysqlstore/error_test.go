package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// TestClassify holds texts as drivers write them.
func TestClassify(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]waybill.Kind{
		"Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction":                                        waybill.Conflict,
		"Error 1205 (HY000): Lock wait timeout exceeded; try restarting transaction":                                                    waybill.Conflict,
		"ERROR 1205 (HY000): Lock wait timeout exceeded; try restarting transaction":                                                    waybill.Conflict,
		"Error 1213: Deadlock found when trying to get lock; try restarting transaction":                                                waybill.Conflict,
		"Error 1040 (08004): Too many connections":                                                                                      waybill.Unavailable,
		"Error 1927 (70100): Connection was killed":                                                                                     waybill.Unavailable,
		"Error 1290 (HY000): The server is running with the --read-only option":                                                         waybill.Unavailable,
		"Error 1792 (25006): Cannot execute statement in a READ ONLY transaction":                                                       waybill.Unavailable,
		"Error 1053 (08S01): Server shutdown in progress":                                                                               waybill.Unavailable,
		"Error 2006 (HY000): MySQL server has gone away":                                                                                waybill.Unavailable,
		"Error 2013 (HY000): Lost connection to MySQL server during query":                                                              waybill.Unavailable,
		"Error 1047 (08S01): WSREP has not yet prepared node for application use":                                                       waybill.Unavailable,
		"Error 1180 (HY000): Error while appending streaming replication fragment(provider status: Not connected to Primary Component)": waybill.Unavailable,
		"Error 1180 (HY000): Got error 90 \"Message too long\" during COMMIT":                                                           waybill.Transient,
		"Error 1114 (HY000): The table 'waybill_outbox' is full":                                                                        waybill.Unavailable,
		"Error 3 (HY000): Error writing file './shop/new.frm' (Errcode: 28 \"No space left on device\")":                                waybill.Unavailable,
		"Error 1026 (HY000): Error writing file '/tmp/MY1' (OS errno 28 - No space left on device)":                                     waybill.Unavailable,
		"Error 1030 (HY000): Got error 28 \"No space left on device\" from storage engine":                                              waybill.Unavailable,
		"Error 1180 (HY000): Got error 28 \"No space left on device\" during COMMIT":                                                    waybill.Unavailable,
		"write the invoice: No space left on device":                                                                                    waybill.Transient,
		"Error 1142 (42000): INSERT command denied to user 'shop'@'%' for table `shop`.`waybill_…`":                                     waybill.Unavailable,
		"invalid connection":     waybill.Unavailable,
		"driver: bad connection": waybill.Unavailable,
		"Error 1062 (23000): Duplicate entry 'a' for key 'by_id'":   waybill.Transient,
		"Error 1406 (22001): Data too long for column 'id'":         waybill.Transient,
		"Error 1146 (42S02): Table 'shop.waybill_outbox' not found": waybill.Transient,
		"the order 1213 met an error":                               waybill.Transient,
	} {
		err := fmt.Errorf("enqueue: %w", errors.New(text))
		if got := waybill.KindOf(classify(err)); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
	for _, err := range []error{sql.ErrConnDone, driver.ErrBadConn} {
		if got := waybill.KindOf(classify(err)); got != waybill.Unavailable {
			t.Errorf("%v is %v, want unavailable", err, got)
		}
		if got := waybill.KindOf(classifyCaller(err)); got != waybill.Transient {
			t.Errorf("a caller's %v is %v, want transient: it may be of another database", err, got)
		}
	}
	denied := errors.New("Error 1142 (42000): SELECT command denied to user 'shop'@'%' for table `bank`.`accounts`")
	if got := waybill.KindOf(classifyCaller(denied)); got != waybill.Transient {
		t.Errorf("a caller's %v is %v, want transient: it is about a table of the caller's", denied, got)
	}
	detached := errors.New("Error 1047 (08S01): WSREP has not yet prepared node for application use")
	if got := waybill.KindOf(classifyCaller(detached)); got != waybill.Unavailable {
		t.Errorf("a caller's %v is %v, want unavailable", detached, got)
	}
	late := fmt.Errorf("Error 1205 (HY000): %w", context.DeadlineExceeded)
	if got := waybill.KindOf(classify(late)); got != waybill.Transient {
		t.Errorf("a passed deadline is %v, want transient", got)
	}
}

// TestClassify_MissingTable says once, and of the store's own statements only, what to do.
func TestClassify_MissingTable(t *testing.T) {
	t.Parallel()
	err := errors.New("Error 1146 (42S02): Table 'shop.waybill_outbox' doesn't exist")
	text := classify(fmt.Errorf("claim: %w", classify(err))).Error()
	if strings.Count(text, "waybill migrate") != 1 {
		t.Errorf("classify() = %s, want it to name \"waybill migrate\" once", text)
	}
	if got := classifyCaller(err); got != err {
		t.Errorf("classifyCaller() = %v, want the error of the caller's own table as it is", got)
	}
}
