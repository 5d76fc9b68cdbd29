package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// conditioned is a store that knows more of its database than others: that of PostgreSQL.
type conditioned interface {
	Condition(ctx context.Context) (pgadmin.Condition, error)
	Holders(ctx context.Context, age time.Duration, transactions int64) ([]pgadmin.Holder, error)
}

// patience is how long what keeps dead rows may last before it is reported.
type patience struct {
	open         time.Duration // a transaction
	enqueued     time.Duration // one that has enqueued: its messages are late
	transactions int64         // slots and standbys, which have no age in time
}

var usualPatience = patience{open: time.Minute, enqueued: 10 * time.Second, transactions: 100_000}

// deadRowsLimit is ten times the number that starts an autovacuum of the outbox.
const deadRowsLimit = 100_000

func checkCondition(ctx context.Context, store conditioned, p patience) []finding {
	c, err := store.Condition(ctx)
	if err != nil {
		return []finding{unreadable("lanes", err.Error(), "check the permissions of the role")}
	}
	findings := append([]finding{checkLanes(c), checkDays(c), checkVacuum(c)}, checkPlaces(c)...)
	holders, err := store.Holders(ctx, min(p.open, p.enqueued), p.transactions)
	if err != nil {
		f := warning("transactions", err.Error(), "grant the role pg_monitor")
		f.unread = true
		return append(findings, f)
	}
	return append(findings, checkHolders(holders, p)...)
}

func checkLanes(c pgadmin.Condition) finding {
	detail := fmt.Sprintf("%s alive, %d of %d lanes have an owner", ops.Plural(c.Relays, "relay"), c.Lanes-c.FreeLanes, c.Lanes)
	switch {
	case c.Relays == 0:
		return warning("relays", detail, "nothing is published; run: waybill relay")
	case c.FreeLanes > 0:
		return warning("relays", detail, "if that lasts longer than relay.lease, see the relays' logs")
	case c.OldRelays > 0:
		return noting("relays", fmt.Sprintf("%s; %s began before the newest migration", detail, ops.Plural(c.OldRelays, "relay")),
			"restart them with this release when it suits: they may be of an older one")
	}
	return passing("relays", detail)
}

// checkPlaces checks whether a program assigns lanes of its own choice to messages.
func checkPlaces(c pgadmin.Condition) []finding {
	if c.Misplaced == 0 {
		return nil
	}
	return []finding{warning("lanes", fmt.Sprintf("%s of the outbox in another lane than that of the key, so that order may be lost", ops.Plural(c.Misplaced, "message")),
		"find the program that inserts lanes, and grant it INSERT on the other columns alone")}
}

// checkDays leaves relays the time from midnight to their next clean-up.
func checkDays(c pgadmin.Condition) finding {
	detail := fmt.Sprintf("%d of %d days, from today on, have a partition", c.DaysReady, c.DaysAhead)
	if c.DaysReady < c.DaysAhead-1 {
		return warning("archive", detail, "relays make them, every cleanup.interval; see their logs. Meanwhile rows are in the default partition")
	}
	return passing("archive", detail)
}

func checkVacuum(c pgadmin.Condition) finding {
	last := "never vacuumed"
	if c.LastVacuum >= 0 {
		last = "vacuumed " + ops.Age(c.LastVacuum) + " ago"
	}
	detail := fmt.Sprintf("about %s in the outbox, %s", ops.Plural(c.DeadRows, "dead row"), last)
	if c.DeadRows > deadRowsLimit {
		return warning("vacuum", detail, "is autovacuum on, and does a transaction below hold it up?")
	}
	return passing("vacuum", detail)
}

// checkHolders returns a finding for each holder that has lasted too long.
func checkHolders(holders []pgadmin.Holder, p patience) []finding {
	var findings []finding
	for i := range holders {
		if h := &holders[i]; h.Age >= p.open || h.Enqueued || h.Kind == pgadmin.HolderSlot || h.Kind == pgadmin.HolderStandby {
			f := warning("transactions", describeHolder(h), adviceOn(h)).on(string(h.Kind) + " of " + cmp.Or(h.Name, h.User))
			f.Holder = rowOf(h)
			findings = append(findings, f)
		}
	}
	if findings == nil {
		return []finding{passing("transactions", "none is open for long")}
	}
	return findings
}

// describeHolder says in one line who the holder is and what follows from it.
func describeHolder(h *pgadmin.Holder) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s ", h.Kind)
	if h.PID != 0 {
		fmt.Fprintf(&b, "%d ", h.PID)
	}
	fmt.Fprintf(&b, "(%s)", strings.Join(notEmpty(h.Name, h.User, h.State), ", "))
	var facts []string
	if h.Age > 0 {
		facts = append(facts, "is open for "+ops.Age(h.Age))
	}
	if h.Enqueued {
		facts = append(facts, "has enqueued messages")
	}
	if h.HoldsRows {
		what := "dead rows"
		if h.CatalogOnly {
			what = "dead rows of the server's own tables"
		}
		facts = append(facts, fmt.Sprintf("keeps the %s of the last %s", what, ops.Plural(h.Transactions, "transaction")))
	}
	b.WriteString(" " + strings.Join(facts, ", "))
	if h.Query != "" {
		fmt.Fprintf(&b, ": %s", h.Query)
	}
	return b.String()
}

func notEmpty(texts ...string) []string {
	var list []string
	for _, t := range texts {
		if t != "" {
			list = append(list, t)
		}
	}
	return list
}

func adviceOn(h *pgadmin.Holder) string {
	switch h.Kind {
	case pgadmin.HolderPrepared:
		return "let its coordinator end it, or: ROLLBACK PREPARED"
	case pgadmin.HolderSlot:
		return "if nobody reads it any more: SELECT pg_drop_replication_slot"
	case pgadmin.HolderStandby:
		return "look for long queries on it"
	}
	return fmt.Sprintf("let its application end it, or: SELECT pg_terminate_backend(%d)", h.PID)
}

// holderRow is a holder as programs get it.
type holderRow struct {
	Kind         pgadmin.HolderKind `json:"kind"`
	PID          int                `json:"pid,omitempty"`
	Name         string             `json:"name"`
	User         string             `json:"user,omitempty"`
	State        string             `json:"state,omitempty"`
	Seconds      float64            `json:"age_seconds"`
	HoldsRows    bool               `json:"holds_rows"`
	Transactions int64              `json:"transactions"`
	Enqueued     bool               `json:"enqueued"`
	CatalogOnly  bool               `json:"catalog_only"`
	Query        string             `json:"query,omitempty"`
}

func rowOf(h *pgadmin.Holder) *holderRow {
	return &holderRow{
		Kind: h.Kind, PID: h.PID, Name: h.Name, User: h.User, State: h.State, Seconds: h.Age.Seconds(),
		HoldsRows: h.HoldsRows, Transactions: h.Transactions, Enqueued: h.Enqueued, CatalogOnly: h.CatalogOnly, Query: h.Query,
	}
}
