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
		Short: "Look into dead letters, and put them back or settle them",
		Long: `Look into dead letters: the messages that a relay could not publish, or a consumer could not
handle. "groups" shows what fails alike, "list" and "show" the letters. When the cause is
mended, "requeue" puts some back, "replay" many at a bearable pace, "edit" a corrected copy.
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

// letterNumbers reads the numbers of letters.
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

// unknownLetter replaces what a store says about a number that it does not know.
func unknownLetter(number int64, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no dead letter %d, or its message has arrived since it was requeued", number)
	}
	return err
}
