package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Every driver passes on SQLite's own error texts (sqlite3_errstr), and only these are common to
// all drivers: error types and codes differ.
var (
	// clashTexts are those of a writer that waited in vain, and of a reader that wants to write
	// after another one has written.
	clashTexts = []string{"database is locked", "database table is locked", "database schema is locked"}

	// outageTexts are about the file or the process, not about one message.
	outageTexts = []string{
		"disk I/O error", "database or disk is full", "unable to open database file", "attempt to write a readonly database",
		"access permission denied", "locking protocol",
	}

	// absenceTexts are about a missing table or column of the store.
	absenceTexts = []string{"no such table", "no such column", "has no column named"}

	// endedText is the error of COMMIT and ROLLBACK if a statement has ended its transaction: by a
	// conflict clause or a trigger that says so, an interrupt, or a disk that is full or fails.
	endedText = "no transaction is active"

	// withinText is the error of BEGIN in a transaction.
	withinText = "within a transaction"

	// closedTexts are those of database/sql.
	closedTexts = []string{"sql: database is closed", "sql: connection is already closed"}
)

var errEnded = errors.New("a statement whose error was not returned has ended the transaction")

// classify gives a database error its kind.
func classify(err error) error {
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || containsAny(err, closedTexts) {
		return waybill.UnavailableError(err)
	}
	if containsAny(err, absenceTexts) {
		return sqldb.MissingTable(err)
	}
	return classifyCaller(err)
}

// classifyCaller leaves an error of the caller's function as it is, except for what SQLite says
// about transactions that clash and about its file.
func classifyCaller(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return err
	case containsAny(err, clashTexts):
		return waybill.ConflictError(err)
	case containsAny(err, outageTexts):
		return waybill.UnavailableError(err)
	}
	return err
}

// lockTimedOut reports whether err is that of a writer that waited for others in vain.
func lockTimedOut(err error) bool { return containsAny(err, clashTexts) }

func containsAny(err error, texts []string) bool {
	message := err.Error()
	for _, text := range texts {
		if strings.Contains(message, text) {
			return true
		}
	}
	return false
}
