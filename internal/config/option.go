package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/internal/redact"
)

// Kind is the type of an option's value.
type Kind int

const (
	String   Kind = iota // any text, of limited length
	Int                  // a whole number
	Bool                 // true or false
	Duration             // as [ParseDuration] reads it
)

// Option is one setting of the program.
type Option struct {
	// Key is the name, such as "relay.poll_interval": lower case, words joined by '_',
	// sections by '.'.
	Key string

	// Kind is the type of the value.
	Kind Kind

	// Default is the value, as it would be written, if no source has one.
	Default string

	// Min and Max are inclusive limits, written like a value; "" for none. For String they
	// limit the number of bytes.
	Min, Max string

	// OneOf are the allowed values; empty if every value is allowed.
	OneOf []string

	// Secret says that the value may hold a password.
	Secret bool

	// Hidden says of a Secret option that no part of its value may be shown.
	Hidden bool

	// Help says in one line what the option does.
	Help string
}

// Flag returns the name of the option's flag without the leading dashes.
func (o Option) Flag() string { return strings.NewReplacer(".", "-", "_", "-").Replace(o.Key) }

// Env returns the name of the option's environment variable.
func (o Option) Env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.Key, ".", "_"))
}

// Redacted returns raw, a value of the option, in a form that may be printed.
func (o Option) Redacted(raw string) string {
	switch {
	case raw != "" && o.Hidden:
		return redact.Hidden
	case o.Secret:
		return redact.URL(raw)
	}
	return raw
}

// parse checks a written value and returns it as string, int, bool or time.Duration. The
// error does not quote a secret.
func (o Option) parse(raw string) (any, error) {
	if len(o.OneOf) > 0 && !slices.Contains(o.OneOf, raw) {
		return nil, fmt.Errorf("%q is not one of %s", raw, strings.Join(o.OneOf, ", "))
	}
	switch o.Kind {
	case Int:
		return parseWithin(o, raw, parseInt)
	case Duration:
		return parseWithin(o, raw, ParseDuration)
	case Bool:
		return parseBool(raw)
	}
	return raw, within(o, len(raw), fmt.Sprintf("has %d bytes", len(raw)), parseInt)
}

func parseWithin[T cmp.Ordered](o Option, raw string, parse func(string) (T, error)) (T, error) {
	v, err := parse(raw)
	if err != nil {
		return v, err
	}
	return v, within(o, v, raw+" is out of range", parse)
}

// within compares v with the limits of the option, which parse reads.
func within[T cmp.Ordered](o Option, v T, finding string, parse func(string) (T, error)) error {
	if o.Min != "" {
		if least, err := parse(o.Min); err != nil {
			return fmt.Errorf("minimum: %w", err)
		} else if v < least {
			return fmt.Errorf("%s, the minimum is %s", finding, o.Min)
		}
	}
	if o.Max != "" {
		if most, err := parse(o.Max); err != nil {
			return fmt.Errorf("maximum: %w", err)
		} else if v > most {
			return fmt.Errorf("%s, the maximum is %s", finding, o.Max)
		}
	}
	return nil
}

func parseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("%s is too large a number", s)
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", s)
}
