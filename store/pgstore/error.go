package pgstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill"
)

const rollbackTimeout = 5 * time.Second

// sqlStater is implemented by the errors of every PostgreSQL driver.
type sqlStater interface{ SQLState() string }

// classify gives a database error its kind. An error that has one keeps it.
func classify(err error) error {
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
	switch state {
	case "40001", "40P01", "55P03": // serialization failure, deadlock, lock not available
		return waybill.ConflictError(err)
	case "25006", "42501", "57014": // read-only server, no permission, cancelled by an operator
		return waybill.UnavailableError(err)
	}
	for _, class := range [...]string{"08", "28", "53", "57P", "58"} { // connection, login, resources, shutdown, system
		if strings.HasPrefix(state, class) {
			return waybill.UnavailableError(err)
		}
	}
	return err
}

func isConnectionError(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) && !errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) || strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed pool")
}
