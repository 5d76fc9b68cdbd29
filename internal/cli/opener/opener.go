// Package opener opens stores and brokers by their URLs. It is the one place of the program
// that knows which there are.
package opener

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/waybill-go/waybill/internal/config"
)

// Timeout bounds how long opening may take.
const Timeout = 10 * time.Second

// ErrURL reports a URL that can't be opened because of what it says, not because of who
// does not answer.
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

// Denied returns in one line what a database says that refuses a right, and "" if err is not
// about one.
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

// badURL makes an error about a URL from what a parser said, without the URL in it, because
// the parser may quote the password.
func badURL(what, rawURL string, err error) error {
	var parse *pgconn.ParseConfigError
	var syntax *url.Error
	reason := "is malformed"
	switch {
	case errors.As(err, &syntax):
		reason = syntax.Err.Error()
	case errors.As(err, &parse) && parse.Unwrap() != nil:
		reason = parse.Unwrap().Error()
	}
	if password := passwordOf(rawURL); password != "" && strings.Contains(reason, password) {
		reason = "is malformed"
	}
	return fmt.Errorf("%w: %s %s: %s", ErrURL, what, config.Redact(rawURL), reason)
}

// passwordOf returns what redaction would hide of a URL's user, roughly.
func passwordOf(rawURL string) string {
	_, rest, _ := strings.Cut(rawURL, "://")
	user := rest[:max(0, strings.LastIndexByte(rest, '@'))]
	_, password, _ := strings.Cut(user, ":")
	return password
}
