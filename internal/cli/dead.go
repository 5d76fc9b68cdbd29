package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
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
	cmd.AddCommand(p.deadGroupsCommand(), p.deadListCommand(), p.deadShowCommand(),
		p.deadRequeueCommand(), p.deadResolveCommand(), p.deadDiscardCommand(), p.deadRestoreCommand(), p.deadDeleteCommand(), p.deadEditCommand(),
		p.deadReplayCommand(), p.deadReplaysCommand(), p.deadReplayCancelCommand(), p.deadAuditCommand())
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

// letterProblem says why a letter was not changed, and whether somebody else has changed it.
func letterProblem(err error) (text string, overtaken bool) {
	switch {
	case errors.Is(err, waybill.ErrNotFound):
		return "there is no such dead letter", true
	case errors.Is(err, deadletter.ErrResolved):
		return "it was resolved or discarded", true
	case errors.Is(err, deadletter.ErrRequeued):
		return "it was requeued and is pending", true
	case errors.Is(err, deadletter.ErrBehind):
		return "an earlier message of its key is still to be published: try again later", false
	}
	var invalid *waybill.InvalidError
	if errors.As(err, &invalid) {
		return "its " + invalid.Field + " " + invalid.Reason, false
	}
	return strings.TrimPrefix(err.Error(), "waybill: "), false
}

// unknownLetter replaces what a store says about a number that it does not know.
func unknownLetter(number int64, err error) error {
	if errors.Is(err, waybill.ErrNotFound) {
		return fmt.Errorf("there is no dead letter %d, or its message has arrived since it was requeued", number)
	}
	return err
}
