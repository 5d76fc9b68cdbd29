// Package opener opens stores and brokers by their URLs. It is the only place in the program that knows
// all of them.
package opener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill/internal/redact"
)

// Timeout bounds how long opening may take.
const Timeout = 10 * time.Second

// ErrURL reports a URL that cannot be opened because of its content, not because a server does not
// answer.
var ErrURL = errors.New("unusable URL")

// UnreachableError reports a server that does not answer, or that refuses us.
type UnreachableError struct {
	What    string // "store" or "broker"
	Address string // the URL without its password
	Err     error
}

// Error is one line with the address.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach the %s %s: %s", e.What, e.Address, plain(e.Err))
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Err }

// plain returns the part of a connection error that says what went wrong, in one line.
func plain(err error) string {
	var network *net.OpError
	var server *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &server):
		err = server
	case errors.As(err, &network):
		err = network
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &connect):
		err = connect.Unwrap()
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// Denied returns in one line the database's message about a missing right, and "" if err is not about
// one.
func Denied(err error) string {
	var server *pgconn.PgError
	if !errors.As(err, &server) || server.Code != insufficientPrivilege {
		return ""
	}
	return plain(server)
}

const insufficientPrivilege = "42501"

// schemeOf returns the scheme of a URL, "" if it has none.
func schemeOf(rawURL string) string {
	scheme, _, found := strings.Cut(rawURL, ":")
	if !found {
		return ""
	}
	return strings.ToLower(scheme)
}

// reasons are the parts of a URL parser's errors that are passed on. The rest of such an error may quote
// a password.
var reasons = []string{
	"invalid port", "invalid URL escape", "invalid userinfo", "invalid character in host name",
	"sslmode is invalid", errNoDatabase.Error(), errMisplaced.Error(),
}

var errMisplaced = errors.New("a '/', '?' or '#' in the password must be percent-encoded: %2F, %3F, %23")

// badURL makes an error about a URL from what a parser said.
func badURL(what, rawURL string, err error) error {
	reason := "is malformed"
	for _, r := range reasons {
		if strings.Contains(err.Error(), r) {
			reason = r
		}
	}
	return fmt.Errorf("%w: %s %s: %s", ErrURL, what, redact.URL(rawURL), reason)
}

// checkPassword refuses a URL in which a parser would mistake part of the password for host and port,
// which errors show.
func checkPassword(what, rawURL string) error {
	if redact.Misplaced(rawURL) {
		return badURL(what, rawURL, errMisplaced)
	}
	return nil
}
