package sqlstore

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// where collects conditions and their arguments. Only those of the filter become part of the
// statement, so that the database plans for these.
type where struct {
	conditions []string
	args       []any
	end        string // order and limit
	hasText    string // condition that a dead letter has the text ? in one of its columns
}

// where returns an empty collection, whose arguments follow those given.
func (c *Core[Tx]) where(args ...any) *where {
	return &where{args: args, hasText: c.SQL.HasText}
}

// add adds a condition, in which each ? stands for the argument.
func (w *where) add(condition string, arg any) {
	w.args = append(w.args, arg)
	w.conditions = append(w.conditions, strings.ReplaceAll(condition, "?", fmt.Sprintf("$%d", len(w.args))))
}

// equal adds a condition on a column unless the value is the zero value.
func equal[V comparable](w *where, column string, value V) {
	var zero V
	if value != zero {
		w.add(column+" = ?", value)
	}
}

func (w *where) sql() string {
	if len(w.conditions) == 0 {
		return w.end
	}
	return "WHERE " + strings.Join(w.conditions, " AND ") + " " + w.end
}

// lettersOf returns the conditions of a validated filter.
func (c *Core[Tx]) lettersOf(f deadletter.Filter) *where {
	w := c.where()
	w.match(f)
	w.page(f)
	return w
}

// match adds the conditions of a validated filter.
func (w *where) match(f deadletter.Filter) {
	w.conditions = append(w.conditions, fmt.Sprintf("state = '%s'", cmp.Or(f.State, deadletter.Open)))
	equal(w, "origin", string(f.Origin))
	equal(w, "consumer", f.Consumer)
	equal(w, "topic", f.Topic)
	equal(w, "type", f.Type)
	equal(w, "tenant", f.Tenant)
	equal(w, "fingerprint", f.Fingerprint)
	equal(w, "id", f.MessageID)
	equal(w, "{key}", f.Key)
	equal(w, "correlation_id", f.CorrelationID)
	if !f.Since.IsZero() {
		w.add("last_failed_at >= ?", sqldb.Timestamp(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("last_failed_at < ?", sqldb.Timestamp(f.Until))
	}
	if f.TextAlone() {
		w.conditions = append(w.conditions, fmt.Sprintf(`number >= (SELECT coalesce(min(number), 0) FROM (
    SELECT number FROM {dead_letters} WHERE %s ORDER BY number DESC LIMIT %d) newest)`, strings.Join(w.conditions, " AND "), deadletter.TextReach))
	}
	if f.Text != "" {
		w.add(w.hasText, contains(f.Text))
	}
}

// page orders the dead letters and continues behind the last one of the previous page.
func (w *where) page(f deadletter.Filter) {
	order := ""
	switch {
	case f.Newest && f.After != 0:
		w.add("number < ?", f.After)
		order = " DESC"
	case f.Newest:
		order = " DESC"
	case f.After != 0:
		w.add("number > ?", f.After)
	}
	w.end = fmt.Sprintf("ORDER BY number%s LIMIT %d", order, cmp.Or(f.Limit, deadletter.DefaultLimit))
}

// contains returns the pattern for values that contain a text, "" if the text is empty.
func contains(text string) string {
	if text == "" {
		return ""
	}
	return "%" + wildcards.Replace(text) + "%"
}

// wildcards escapes the special characters of LIKE.
var wildcards = strings.NewReplacer(`!`, `!!`, `%`, `!%`, `_`, `!_`)

// entriesOf returns the conditions of a filter of the audit log.
func entriesOf(f deadletter.AuditFilter) *where {
	w := &where{}
	equal(w, "action", string(f.Action))
	equal(w, "actor", f.By)
	equal(w, "letter", f.Letter)
	equal(w, "message_id", f.MessageID)
	equal(w, "replay", f.Replay)
	if f.Before != 0 {
		w.add("number < ?", f.Before)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = deadletter.DefaultLimit
	}
	w.end = fmt.Sprintf("ORDER BY number DESC LIMIT %d", limit)
	return w
}
