package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sections are the headings of options in help texts, in their order. A key that ends with a dot stands
// for all keys that begin with it.
var sections = []struct {
	heading string
	keys    []string
}{
	{"Store", storeOptions},
	{"Broker", brokerOptions},
	{"Relay", slices.Concat(relayOptions, publishOptions)},
	{"Retention", slices.Concat(retentionOptions, removalOptions)},
	{"Inbox service", []string{"inbox.lease", "discovery."}},
	{"Push", []string{"push."}},
	{"Alerts", []string{"watch."}},
	{"Process", []string{"source", "by", "log.", "metrics."}},
}

// groups are the headings of commands in the help of the program, in their order.
var groups = []struct {
	heading  string
	commands []string
}{
	{"Set up", []string{"migrate", "roles", "topology", "config", "explain"}},
	{"Run", []string{"relay", "inbox", "push", "janitor", "watch", "dashboard"}},
	{"Look and repair", []string{"doctor", "traffic", "outbox", "dead", "schedule", "saga"}},
	{"Other commands", []string{"demo", "completion", "version", "help"}},
}

var (
	storeOptions  = []string{"store", "schema", "table_prefix", "postgres.listen_url"}
	changeOptions = slices.Concat(storeOptions, []string{"by"})
	brokerOptions = []string{"broker", "rabbitmq.", "nats.", "kafka.", "redis.", "webhook."}
	relayOptions  = []string{
		"relay.node", "relay.poll_interval", "relay.batch_size", "relay.max_retries", "relay.parallelism", "relay.mode", "relay.order",
		"relay.max_parked_messages", "relay.max_parked_keys", "relay.lease", "relay.publish_timeout", "relay.shutdown_grace",
		"retry.", "dead_letter.enabled",
	}
	publishOptions   = []string{"broker_rate", "broker_structured", "relay.record", "relay.record_size", "relay.record_keys", "dead_letter.replays", "schedule."}
	retentionOptions = []string{"outbox.retention", "inbox.retention", "inbox.allow_short_retention", "cleanup."}
	removalOptions   = []string{"dead_letter.retention", "saga.retention", "audit.retention"}
)

// readBy says which options a command reads. A command that is not named reads those of the one above it.
var readBy = map[string][]string{
	"waybill":                   {},
	"waybill config":            {""},
	"waybill demo":              {},
	"waybill version":           {},
	"waybill migrate":           slices.Concat(storeOptions, []string{"source"}),
	"waybill roles":             storeOptions,
	"waybill relay":             slices.Concat(storeOptions, brokerOptions, relayOptions, publishOptions, retentionOptions, removalOptions, []string{"log.", "metrics."}),
	"waybill relay status":      storeOptions,
	"waybill relay replay":      {},
	"waybill outbox":            storeOptions,
	"waybill outbox cancel":     changeOptions,
	"waybill inbox":             slices.Concat(storeOptions, brokerOptions, retentionOptions, []string{"inbox.lease", "discovery.", "log.", "metrics."}),
	"waybill inbox show":        storeOptions,
	"waybill push":              slices.Concat(storeOptions, brokerOptions, []string{"push.", "log.", "metrics."}),
	"waybill dead":              changeOptions,
	"waybill dead audit":        storeOptions,
	"waybill dead groups":       storeOptions,
	"waybill dead list":         storeOptions,
	"waybill dead replays":      storeOptions,
	"waybill dead replay":       slices.Concat(changeOptions, []string{"inbox.retention", "log."}),
	"waybill schedule":          changeOptions,
	"waybill schedule list":     storeOptions,
	"waybill schedule messages": storeOptions,
	"waybill saga":              changeOptions,
	"waybill saga list":         storeOptions,
	"waybill traffic":           storeOptions,
	"waybill dashboard":         slices.Concat(storeOptions, relayOptions, retentionOptions, []string{"broker", "log."}),
	"waybill janitor":           slices.Concat(storeOptions, brokerOptions, relayOptions, retentionOptions, removalOptions, []string{"log."}),
	"waybill doctor":            slices.Concat(storeOptions, brokerOptions, relayOptions, retentionOptions, []string{"discovery."}),
	"waybill watch":             slices.Concat(storeOptions, brokerOptions, []string{"discovery.", "watch.", "log."}),
	"waybill topology":          brokerOptions,
	"waybill explain":           slices.Concat(storeOptions, brokerOptions, []string{"relay.mode", "relay.order", "inbox.retention"}),
}

// covers reports whether a key is among keys, or begins with one that ends with a dot or is empty.
func covers(keys []string, key string) bool {
	return slices.ContainsFunc(keys, func(k string) bool {
		return k == key || (k == "" || strings.HasSuffix(k, ".")) && strings.HasPrefix(key, k)
	})
}

// readsOption reports whether a command reads an option.
func readsOption(cmd *cobra.Command, key string) bool {
	for c := cmd; c != nil; c = c.Parent() {
		if keys, ok := readBy[c.CommandPath()]; ok {
			return covers(keys, key)
		}
	}
	return false
}

// addHelp makes the help of a command show the options that it reads.
func addHelp(root *cobra.Command) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := fmt.Fprint(cmd.OutOrStderr(), usageOf(cmd))
		return err
	})
}

// usageOf returns how a command is used, as cobra shows it, with flags under headings.
func usageOf(cmd *cobra.Command) string {
	var text strings.Builder
	text.WriteString("Usage:")
	if cmd.Runnable() {
		text.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		text.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	text.WriteString(commandUsages(cmd))
	text.WriteString(flagUsages(cmd))
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&text, "\n\nUse %q for more information about a command.", cmd.CommandPath()+" [command] --help")
	}
	return text.String() + "\n"
}

// commandUsages returns the commands below a command, those of the program in groups.
func commandUsages(cmd *cobra.Command) string {
	var text strings.Builder
	list := func(heading string, commands []*cobra.Command) {
		if len(commands) > 0 {
			text.WriteString("\n\n" + heading + ":")
		}
		for _, c := range commands {
			fmt.Fprintf(&text, "\n  %-*s %s", c.NamePadding(), c.Name(), c.Short)
		}
	}
	if cmd.HasParent() {
		list("Commands", slices.DeleteFunc(cmd.Commands(), func(c *cobra.Command) bool { return !c.IsAvailableCommand() }))
		return text.String()
	}
	for _, g := range groups {
		var commands []*cobra.Command
		for _, name := range g.commands {
			if c, _, err := cmd.Find([]string{name}); err == nil {
				commands = append(commands, c)
			}
		}
		list(g.heading, commands)
	}
	return text.String()
}

// flagUsages returns the flags of a command and the options that it reads, under headings. An option that the command
// has under a name of its own is not shown twice.
func flagUsages(cmd *cobra.Command) string {
	var text strings.Builder
	own := make(map[pflag.Value]bool)
	section := func(heading string, from *pflag.FlagSet, has func(f *pflag.Flag) bool) {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
		from.VisitAll(func(f *pflag.Flag) {
			if has(f) {
				flags.AddFlag(f)
			}
		})
		if flags.HasAvailableFlags() {
			fmt.Fprintf(&text, "\n\n%s:\n%s", heading, strings.TrimRight(flags.FlagUsages(), "\n"))
		}
	}
	options := cmd.Root().PersistentFlags()
	section("Flags", cmd.Flags(), func(f *pflag.Flag) bool {
		mine := options.Lookup(f.Name) == nil
		own[f.Value] = own[f.Value] || mine
		return mine
	})
	for _, s := range sections {
		section(s.heading, options, func(f *pflag.Flag) bool {
			o, ok := f.Value.(*optionFlag)
			return ok && !own[f.Value] && covers(s.keys, o.option.Key) && readsOption(cmd, o.option.Key)
		})
	}
	section("Every command", options, func(f *pflag.Flag) bool {
		_, ok := f.Value.(*optionFlag)
		return !ok
	})
	return text.String()
}
