package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

// letterFilter is a filter as flags give it.
type letterFilter struct {
	deadletter.Filter
	since, until string
	flags        *pflag.FlagSet // those of the filter only
}

// addTo adds the flags to a command.
func (f *letterFilter) addTo(cmd *cobra.Command) {
	f.flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	f.flags.StringVar((*string)(&f.Origin), "origin", "", "only letters of the relay, or of a consumer")
	f.flags.StringVar(&f.Consumer, "consumer", "", "only letters of this consumer")
	f.flags.StringVar(&f.Topic, "topic", "", "only messages of this topic, or to this destination")
	f.flags.StringVar(&f.Type, "type", "", "only messages of this type")
	f.flags.StringVar(&f.Tenant, "tenant", "", "only messages of this tenant")
	f.flags.StringVar(&f.Fingerprint, "group", "", "only letters of this `group`, as \"waybill dead groups\" names it")
	f.flags.StringVar(&f.MessageID, "id", "", "only letters of the message with this `id`")
	f.flags.StringVar(&f.Key, "key", "", "only messages with this key")
	f.flags.StringVar(&f.CorrelationID, "correlation-id", "", "only messages of this flow")
	f.flags.StringVar(&f.since, "since", "", "only letters that failed last at or after this `time`: 2h ago, or 2026-08-01T03:00:00Z")
	f.flags.StringVar(&f.until, "until", "", "only letters that failed last before this `time`")
	f.flags.StringVar(&f.Text, "text", "", "only letters with this text in error, id, key or correlation id")
	cmd.Flags().AddFlagSet(f.flags)
}

// complete parses the flags.
func (f *letterFilter) complete() (err error) {
	if f.Since, err = pointInTime("since", f.since); err != nil {
		return err
	}
	if f.Until, err = pointInTime("until", f.until); err != nil {
		return err
	}
	return flagError(f.Check())
}

// completeText refuses a text, which is searched for only in the newest dead letters, where all
// that match are meant.
func (f *letterFilter) completeText() error {
	if f.TextAlone() {
		return usagef("--text goes with --group or --since here, because alone it is looked for in the newest %s letters only", ops.Count(deadletter.TextReach))
	}
	return nil
}

// given reports whether any flag of the filter was.
func (f *letterFilter) given() bool {
	given := false
	f.flags.VisitAll(func(flag *pflag.Flag) { given = given || flag.Changed })
	return given
}

// pointInTime reads a time, or how long ago it was; "" is the zero time.
func pointInTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	ago, err := config.ParseDuration(text)
	if err != nil || ago < 0 {
		return time.Time{}, usagef("--%s is %q; it is how long ago, such as 90m or 2d, or a time such as 2026-08-01T03:00:00Z", flag, text)
	}
	return time.Now().Add(-ago), nil
}

// typed returns a command line that repeats the flags of the filter behind the given words.
func (f *letterFilter) typed(words string) string { return typedFlags(words, f.flags) }

// typedFlags returns a command line that repeats the flags which were given.
func typedFlags(words string, flags *pflag.FlagSet) string {
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			words += " --" + flag.Name + " " + quoted(flag.Value.String())
		}
	})
	return words
}

// quoted returns text quoted so that a shell reads it as one word.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/@+,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(clean(text), "'", `'\''`) + "'"
}
