package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/waybill-go/waybill/internal/ops"
)

// clearLine goes to the beginning of a terminal's line and empties it.
const clearLine = "\r\x1b[K"

// progressf shows progress to a person, in a line that the next one replaces.
func (p *program) progressf(format string, args ...any) {
	if p.progress {
		fmt.Fprintf(p.stderr, clearLine+format, args...)
	}
}

// endProgress removes that line.
func (p *program) endProgress() {
	if p.progress {
		fmt.Fprint(p.stderr, clearLine)
	}
}

// hintf prints the next step for a person, and nothing for programs.
func (p *program) hintf(format string, args ...any) {
	if !p.json {
		fmt.Fprintf(p.stderr, format+"\n", args...)
	}
}

const maxAnswer = 100 // bytes

// confirm makes sure that a bulk change is meant: with --yes, or by asking a person. what
// says what will be done, such as "requeue 7 dead letters".
func (p *program) confirm(yes bool, what string) error {
	if yes {
		return nil
	}
	if !p.asks {
		return usagef("nothing was changed: nobody is here to be asked; give --yes to %s", what)
	}
	fmt.Fprintf(p.stderr, "%s? [y/N] ", ops.Capital(what))
	answer, err := bufio.NewReader(io.LimitReader(p.stdin, maxAnswer)).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}
