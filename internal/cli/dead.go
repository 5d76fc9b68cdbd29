package cli

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/ops"
)

func (p *program) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dead",
		Short: "Inspect dead letters, and requeue or settle them",
		Long: `Inspect dead letters: the messages that a relay could not publish, or a consumer could not
handle. "groups" shows what fails alike, "list" and "show" the letters. When the cause is
fixed, "requeue" retries some, "replay" many at a limited rate, "edit" a corrected copy.
"resolve" and "discard" note that a letter is not to be requeued; "restore" takes that back, and
"delete" removes a letter with its payload. "audit" shows who has changed what, and why.`,
		RunE: needsSubcommand,
	}
	cmd.AddCommand(p.deadGroupsCommand(), p.deadListCommand(), p.deadShowCommand(), p.deadEditCommand(),
		p.deadReplayCommand(), p.deadReplaysCommand(), p.verbCommand("replay-cancel", ops.Find(ops.Replay, "cancel"), replayOperand), p.deadAuditCommand())
	for _, v := range ops.Verbs {
		if v.Noun == ops.Letter && v.Do != nil {
			cmd.AddCommand(p.settleCommand(v))
		}
	}
	return cmd
}

// letterNumbers reads the numbers of dead letters.
func letterNumbers(args []string) ([]int64, error) {
	numbers := make([]int64, len(args))
	for i, arg := range args {
		n, err := strconv.ParseInt(arg, 10, 64)
		if err != nil || n < 1 {
			return nil, usagef("%q is not the number of a dead letter; \"waybill dead list\" shows them", arg)
		}
		numbers[i] = n
	}
	return numbers, nil
}

// letterOperand is for commands on one dead letter; those on several take filters as well.
var letterOperand = operand{
	read: func(args []string) (ops.Target, error) {
		numbers, err := letterNumbers(args)
		if err != nil {
			return ops.Target{}, err
		}
		return ops.Target{Number: numbers[0]}, nil
	},
	unknown: func(t ops.Target, err error) error { return unknownLetter(t.Number, err) },
	typed:   func(verb string, t ops.Target) string { return fmt.Sprintf("waybill dead %s %d", verb, t.Number) },
}

func (p *program) deadShowCommand() *cobra.Command {
	return p.shower(&cobra.Command{
		Use:   "show NUMBER",
		Short: "Show one dead letter with its history",
		Long: `Show one dead letter: what it is, why it is dead, every failed attempt that is remembered, and
who has done what with it. Payload and values of headers may be confidential: they are shown
with --payload, and the audit log keeps who has looked.`,
		Args: takes(1),
	}, "payload", func() (ops.Noun, operand) { return ops.Letter, letterOperand }, p.showScreen)
}

// unknownLetter replaces a store's error about a number that it does not know.
func unknownLetter(number int64, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no dead letter %d, or its message has arrived since it was requeued", number)
	}
	return err
}
