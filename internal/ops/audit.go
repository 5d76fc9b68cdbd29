package ops

import (
	"context"
	"fmt"
	"strings"

	"github.com/waybill-go/waybill/deadletter"
)

// Reveal records who looks at something confidential of the subject of e, such as the payload. If it fails the
// content must not be shown.
func (s Stores) Reveal(ctx context.Context, act deadletter.Act, what string, e deadletter.Entry) error {
	e.Action, e.By, e.Why = deadletter.ActReveal, act.By, act.Why
	if err := s.Audit.RecordAudit(ctx, e); err != nil {
		return fmt.Errorf("the %s is not shown, because that can't be noted in the audit log: %w", what, err)
	}
	return nil
}

// About names what an entry of the audit log is about.
func About(e *deadletter.Entry) string {
	var parts []string
	if e.Letter != 0 {
		parts = append(parts, fmt.Sprintf("letter %d", e.Letter))
	}
	if e.MessageID != "" {
		parts = append(parts, "message "+e.MessageID)
	}
	if e.Replay != 0 {
		parts = append(parts, fmt.Sprintf("replay %d", e.Replay))
	}
	if e.Detail != "" {
		parts = append(parts, Short(e.Detail, 60))
	}
	return strings.Join(parts, ", ")
}

// Words lists words, such as statuses, as a person reads them.
func Words[T ~string](list []T) string {
	words := make([]string, len(list))
	for i, word := range list {
		words[i] = string(word)
	}
	return strings.Join(words, ", ")
}
