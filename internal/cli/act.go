package cli

import (
	"cmp"
	"errors"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
)

// addWhy adds the flag that accompanies --by.
func addWhy(flags *pflag.FlagSet, why *string) {
	flags.StringVar(why, "why", "", "why, for the audit log")
}

// act returns who asks for a change, and why.
func (p *program) act(cmd *cobra.Command, why string) (deadletter.Act, error) {
	cfg, err := p.settings(cmd)
	if err != nil {
		return deadletter.Act{}, err
	}
	act := deadletter.Act{By: cmp.Or(cfg.String("by"), operator()), Why: why}
	return act, flagError(act.Check())
}

// operator is the user who runs the program, and the host.
func operator() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	by := strings.ToValidUTF8(name+"@"+host, "")
	return by[:min(len(by), waybill.MaxIDLen)]
}

// flagsOf names the flags whose names differ from their fields.
var flagsOf = map[string]string{"message_id": "id", "fingerprint": "group", "max_failure_ratio": "max-failure-ratio", "older than": "older-than"}

// flagError turns a contract's error about a field into one about the flag.
func flagError(err error) error {
	var invalid *waybill.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	return usagef("--%s %s", cmp.Or(flagsOf[invalid.Field], invalid.Field), invalid.Reason)
}
