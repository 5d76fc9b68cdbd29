package mysqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Drivers have error types of their own, but all of them write the server's error number
// into the text: "Error 1213 (40001): Deadlock found …".
var errorNumber = regexp.MustCompile(`(?i)\berror (\d{4})\b`)

var (
	// clashes are deadlock, lock wait timeout, lock not available at once, a row that has
	// changed since the snapshot was taken, and a commit that another server has overtaken.
	clashes = []string{"1213", "1205", "3572", "1020", "3101"}

	// outages are about the server: too many connections, host blocked, shutdown, session ended
	// by an operator or for its idleness, out of memory, locks or disk, a node of Galera that is
	// not one of its cluster, and the network between us.
	outages = []string{
		"1040", "1203", "1226", "1129", "1130", "1053", "1927", "4031", "1037", "1038", "1041", "1206", "1021", "1114", "1047",
		"1158", "1159", "1160", "1161", "2002", "2003", "2006", "2013", "2055",
	}

	// refusals are of the store's own statements: no access, no right, a server or transaction
	// that may only be read, and a statement ended by an operator.
	refusals = []string{"1317", "1044", "1045", "1142", "1143", "1370", "1290", "1792", "1836"}

	// absences are a missing table or column of the store.
	absences = []string{"1146", "1054"}

	// failedCommit is a commit that Galera could not make, and detached its message if the node has lost the
	// others meanwhile. The transaction may be committed there.
	failedCommit, detached = "1180", "Not connected to Primary Component"

	// noRoom is what a server says in an error of any number when a disk is full that it writes a file on.
	noRoom = regexp.MustCompile(`(?i)\berror \d{1,4}\b.*No space left on device`)

	// closedTexts are those of the driver and of database/sql.
	closedTexts = []string{"invalid connection", "bad connection", "sql: database is closed", "sql: connection is already closed", "unexpected EOF"}
)

// classify gives a database error its kind.
func classify(err error) error {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.As(err, &network),
		containsAny(err, closedTexts), slices.Contains(refusals, numberOf(err)):
		return waybill.UnavailableError(err)
	case slices.Contains(absences, numberOf(err)):
		return sqldb.MissingTable(err)
	}
	return classifyCaller(err)
}

// classifyCaller leaves an error of the caller's function as it is, except for what a server says about
// transactions that clash and about itself: an EOF or a timeout may be of any other connection that the
// function uses.
func classifyCaller(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch number := numberOf(err); {
	case slices.Contains(clashes, number):
		return waybill.ConflictError(err)
	case slices.Contains(outages, number), number == failedCommit && strings.Contains(err.Error(), detached),
		noRoom.MatchString(err.Error()):
		return waybill.UnavailableError(err)
	}
	return err
}

// lockTimedOut reports whether err is that of a statement that has waited for a lock in vain.
func lockTimedOut(err error) bool { return numberOf(err) == "1205" }

// isDuplicate reports whether a row has the key of another one. The statement has changed
// nothing then, and the transaction goes on.
func isDuplicate(err error) bool { return err != nil && numberOf(err) == "1062" }

const (
	unknownVariable = "1193"
	noSavepoint     = "1305"
)

// isColumnThere reports whether the error says that a column to be added exists already.
func isColumnThere(err error) bool { return err != nil && numberOf(err) == "1060" }

// numberOf returns the server's number of an error, "" if there is none.
func numberOf(err error) string {
	if match := errorNumber.FindStringSubmatch(err.Error()); match != nil {
		return match[1]
	}
	return ""
}

func containsAny(err error, texts []string) bool {
	message := err.Error()
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(message, text) })
}
