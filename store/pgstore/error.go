package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/sqldb"
)

const rollbackTimeout = 5 * time.Second

// sqlStater is implemented by the errors of every PostgreSQL driver.
type sqlStater interface{ SQLState() string }

// classify gives a database error its kind.
func classify(err error) error {
	var s sqlStater
	if errors.As(err, &s) {
		return classifyState(s.SQLState(), err)
	}
	if isConnectionError(err) {
		return waybill.UnavailableError(err)
	}
	return err
}

// absences are a missing schema, table, column or function of the store, and a lane that must not be given, as
// before version 16 of the schema.
var absences = []string{"3F000", "42P01", "42703", "42883", "428C9"}

// classifyState knows the SQLSTATE codes that are not about one message: see appendix A of
// the PostgreSQL manual.
func classifyState(state string, err error) error {
	switch {
	case isClash(state):
		return waybill.ConflictError(err)
	case state == "25006", state == "42501", state == "57014": // read-only server, no permission, cancelled by an operator
		return waybill.UnavailableError(err)
	case hasClass(state, "08", "28", "53", "57P", "58"): // connection, login, resources, shutdown, system
		return waybill.UnavailableError(err)
	case state == "25P03", state == "25P04": // the server has ended a transaction that was idle or open for too long
		return waybill.UnavailableError(err)
	case slices.Contains(absences, state):
		return sqldb.MissingTable(err)
	}
	return err
}

// classifyCaller leaves an error of the caller's function as it is, except for what a server says about
// transactions that clash and about its own shutdown: an EOF or a timeout may be of any other connection that
// the function uses.
func classifyCaller(err error) error {
	var s sqlStater
	if !errors.As(err, &s) {
		return err
	}
	switch state := s.SQLState(); {
	case isClash(state):
		return waybill.ConflictError(err)
	case hasClass(state, "08", "53", "57P"): // connection, resources, shutdown
		return waybill.UnavailableError(err)
	}
	return err
}

// isClash knows serialization failure, deadlock, and lock not available.
func isClash(state string) bool {
	return state == "40001" || state == "40P01" || state == "55P03"
}

func hasClass(state string, classes ...string) bool {
	return slices.ContainsFunc(classes, func(class string) bool { return strings.HasPrefix(state, class) })
}

func isConnectionError(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed pool")
}
