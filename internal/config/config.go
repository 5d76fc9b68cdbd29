// Package config holds the settings of the waybill program and where each value came from.
//
// A setting has one name, its key, in every place: "relay.poll_interval" is the flag
// --relay-poll-interval, the environment variable WAYBILL_RELAY_POLL_INTERVAL, and in
// waybill.yaml the entry poll_interval of the section relay. A flag takes precedence over
// the environment, the environment over the file, the file over the default. A name that no
// setting has is an error wherever it occurs, and so is a value out of range: nothing is
// ignored and nothing is corrected.
package config

import (
	"errors"
	"fmt"
	"time"
)

// Config is a complete, valid set of values. It does not change after [Load].
type Config struct {
	values   map[string]value
	lists    lists
	warnings []string
	read     func(key string) // see Watch
}

// value is the value of an option and its origin.
type value struct {
	raw    string
	origin string
	parsed any // string, int, bool or time.Duration
}

// Load resolves every option. flags holds the flags that were set, by the name that
// [Option.Flag] gives; env is in the form of os.Environ; file is the path of a YAML file,
// or "" for none. The error joins one [*Error] for each value that was refused, in the
// order of [Options], and one error for each name that no option has.
func Load(flags map[string]string, env []string, file string) (*Config, error) {
	fromFile, lists, fileErr := readFile(file)
	fromEnv, envErr := readEnv(env)
	fromFlags, flagErr := readFlags(flags)
	c := &Config{values: make(map[string]value, len(options)), lists: lists}
	errs := []error{fileErr, envErr, flagErr}
	for _, o := range options {
		v := value{raw: o.Default, origin: "default"}
		for _, source := range []map[string]value{fromFile, fromEnv, fromFlags} {
			if set, ok := source[o.Key]; ok {
				v = set
			}
		}
		var err error
		if v.parsed, err = o.parse(v.raw); err != nil {
			errs = append(errs, &Error{Key: o.Key, Origin: v.origin, Reason: err.Error()})
			continue
		}
		c.values[o.Key] = v
	}
	errs = append(errs, c.checkPairs()...)
	errs = append(errs, c.checkLists()...)
	errs = append(errs, c.checkMode(file, fromFile))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Watch returns the same values, and calls fn with the key of each that is read of them, by several
// goroutines at once.
func (c *Config) Watch(fn func(key string)) *Config {
	watched := *c
	watched.read = fn
	return &watched
}

// Error reports a value that was refused.
type Error struct {
	Key    string // the option
	Origin string // where the value came from, as [Config.Each] reports it
	Reason string // what is wrong and which limit was exceeded
}

// Error names the option, the source of the value, and the limit.
func (e *Error) Error() string {
	return fmt.Sprintf("%s (%s): %s", e.Key, e.Origin, e.Reason)
}

// pairs are durations of which the first must not exceed the second.
var pairs = []struct {
	less, more string
	strict     bool // they must also differ
	same       bool // 0 for the second means the first
}{
	{less: "retry.base_delay", more: "retry.max_delay"},
	{less: "inbox.retention", more: "dead_letter.retention"},
	{less: "inbox.retention", more: "saga.retention", same: true},
	{less: "relay.publish_timeout", more: "relay.lease", strict: true},
}

func (c *Config) checkPairs() []error {
	var errs []error
	for _, p := range pairs {
		less, lessOK := c.values[p.less].parsed.(time.Duration)
		more, moreOK := c.values[p.more].parsed.(time.Duration)
		if !lessOK || !moreOK || p.same && more == 0 { // reported already, or defaults to the first
			continue
		}
		limit := "must not be more than"
		if p.strict {
			limit = "must be less than"
		}
		if less > more || p.strict && less == more {
			errs = append(errs, &Error{
				Key:    p.less,
				Origin: c.values[p.less].origin,
				Reason: fmt.Sprintf("%s %s %s (%s), which is %s", c.values[p.less].raw, limit,
					p.more, c.values[p.more].origin, c.values[p.more].raw),
			})
		}
	}
	return errs
}

// String returns the value of a text option. Like the other accessors it panics if there is
// no such option of that kind, which is a mistake in the program.
func (c *Config) String(key string) string { return get[string](c, key) }

// Int returns the value of a number option.
func (c *Config) Int(key string) int { return get[int](c, key) }

// Bool returns the value of a yes-or-no option.
func (c *Config) Bool(key string) bool { return get[bool](c, key) }

// Duration returns the value of a duration option.
func (c *Config) Duration(key string) time.Duration { return get[time.Duration](c, key) }

// get panics if there is no option with the key and type.
func get[T any](c *Config, key string) T {
	if c.read != nil {
		c.read(key)
	}
	v, ok := c.values[key].parsed.(T)
	if !ok {
		panic(fmt.Sprintf("config: no option %q of type %T", key, v))
	}
	return v
}

// Origin returns where the value of an option came from: "default", a file with its line,
// an environment variable, or a flag.
func (c *Config) Origin(key string) string { return c.values[key].origin }

// Each calls yield for every option in the order of [Options], with the value as it was
// given, secrets redacted, and its origin.
func (c *Config) Each(yield func(o Option, value, origin string)) {
	for _, o := range options {
		v := c.values[o.Key]
		yield(o, o.Redacted(v.raw), v.origin)
	}
}
