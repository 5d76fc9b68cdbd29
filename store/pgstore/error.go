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
)

const rollbackTimeout = 5 * time.Second

// sqlStater is implemented by the errors of every PostgreSQL driver.
type sqlStater interface{ SQLState() string }

// callerError is an error of the caller's own function, run within a transaction of ours.
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// fromCaller marks the error of the caller's function, so that classify knows it from ours.
func fromCaller(err error) error {
	if err == nil {
		return nil
	}
	return callerError{err}
}

// classify gives a database error its kind. An error that has one keeps it.
func classify(err error) error {
	if e, ok := err.(callerError); ok {
		return classifyCaller(e.error)
	}
	if err == nil || waybill.KindOf(err) != waybill.Transient {
		return err
	}
	var s sqlStater
	if errors.As(err, &s) {
		return classifyState(s.SQLState(), err)
	}
	if isConnectionError(err) {
		return waybill.UnavailableError(err)
	}
	return err
}

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
	}
	return err
}

// classifyCaller leaves an error of the caller's function as it is, but for what a server
// says about transactions that clash and about itself going away: an EOF or a timeout may be
// of any other connection that the function uses.
func classifyCaller(err error) error {
	var s sqlStater
	if waybill.KindOf(err) != waybill.Transient || !errors.As(err, &s) {
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
