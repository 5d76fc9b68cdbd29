package pgadmin

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill/internal/span"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// HolderKind says what a [Holder] is.
type HolderKind string

// The kinds of holders.
const (
	HolderSession  HolderKind = "session"              // an open transaction
	HolderPrepared HolderKind = "prepared transaction" // of a two-phase commit
	HolderSlot     HolderKind = "replication slot"     // physical or logical
	HolderStandby  HolderKind = "standby"              // with hot_standby_feedback
)

// Holder is something that has been open for long: until it ends, dead rows stay, because it might
// still read them.
type Holder struct {
	Kind HolderKind

	// PID is the server process of a session or standby; 0 for the others.
	PID int

	// Name is the application's name, the global id of a prepared transaction, or that of a slot.
	Name string

	// User is its owner; "" for a slot.
	User string

	// State is what a session is doing, such as "idle in transaction".
	State string

	// Age is how long the transaction has been open; 0 for slots and standbys, which have none.
	Age time.Duration

	// HoldsRows says that dead rows of the whole database stay because of it; Transactions is
	// how many transactions have begun since the one from which on they do.
	HoldsRows    bool
	Transactions int64

	// Enqueued says that the transaction has written to the outbox and not yet ended: its messages
	// are not visible yet, and relays must look for them again and again.
	Enqueued bool

	// CatalogOnly says that a slot keeps rows of the server's own tables only.
	CatalogOnly bool

	// Query is the beginning of the session's last statement up to the first value in it,
	// since values may be secrets; and at most 60 characters.
	Query string
}

// Holders returns the transactions of this database that have been open for at least age,
// and the replication slots and standbys that keep rows from before the last transactions,
// longest first; an empty slice if there are none. Sessions of other roles are left out
// unless the role may see them (pg_read_all_stats, or pg_monitor).
func (a *Admin) Holders(ctx context.Context, age time.Duration, transactions int64) ([]Holder, error) {
	rows, err := a.db.DB.Query(ctx, a.sql.Holders, a.db.Render("{outbox}"), float64(age)/float64(time.Millisecond), transactions)
	holders, err := sqldb.Collect(rows, err, scanHolder)
	return holders, a.db.Kind(err)
}

func scanHolder(r sqldb.Rows) (h Holder, err error) {
	var kind, query string
	var millis float64
	err = r.Scan(&kind, &h.PID, &h.Name, &h.User, &h.State, &millis, &h.HoldsRows, &h.Transactions, &h.Enqueued, &h.CatalogOnly, &query)
	h.Kind, h.Age, h.Query = HolderKind(kind), span.Of(millis, time.Millisecond), withoutValues(query)
	return h, err
}

const maxQueryLen = 60 // characters

// withoutValues returns the beginning of a statement up to the first value or comment in it,
// in one line. An ellipsis stands for the rest. Of SET it shows only that word: its value need not
// look like one.
func withoutValues(query string) string {
	shown := query[:firstValue(query)]
	if first, _, _ := strings.Cut(strings.TrimSpace(shown), " "); strings.EqualFold(first, "SET") {
		shown = first
	}
	line := strings.Join(strings.Fields(shown), " ")
	if utf8.RuneCountInString(line) > maxQueryLen {
		line, shown = string([]rune(line)[:maxQueryLen]), ""
	}
	if len(shown) < len(query) {
		return strings.TrimSpace(line) + "…"
	}
	return line
}

// firstValue returns where the first literal, parameter or comment of a statement begins, or
// where the statement ends. Digits within a name are not a value.
func firstValue(query string) int {
	inName := false
	for i, r := range query {
		isDigit := r >= '0' && r <= '9'
		switch {
		case r == '\'' || r == ';' || r == '$' && !inName || isDigit && !inName,
			strings.HasPrefix(query[i:], "--"), strings.HasPrefix(query[i:], "/*"):
			return i
		}
		inName = isDigit || r == '_' || r == '$' || r >= 0x80 || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	return len(query)
}
