package sqlitestore

import (
	"context"
	"strings"

	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// Explain returns what commits survive, as the settings of a connection of this store have it.
// Other programs that write to the file have settings of their own.
func (s *Store) Explain(ctx context.Context) ([]guarantee.Fact, error) {
	rows, err := s.core.DB.Query(ctx, s.sql.Durability)
	d, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (d durability, err error) {
		err = r.Scan(&d.journal, &d.synchronous)
		return d, err
	})
	if err != nil {
		return nil, s.core.Kind(err)
	}
	return d.facts(), nil
}

// durability are the settings that decide what a commit survives.
type durability struct {
	journal     string
	synchronous int
}

func (d durability) facts() []guarantee.Fact {
	journal := guarantee.Fact{About: guarantee.Durability, Setting: "journal_mode", Value: strings.ToLower(d.journal),
		Means: "a transaction is in the file as a whole or not at all", Survives: guarantee.PowerLoss}
	if journal.Value == "off" || journal.Value == "memory" {
		journal.Means = "a crash in the middle of a transaction may damage the file"
		journal.Survives, journal.Stronger = guarantee.Nothing, "journal_mode: wal"
	}
	return []guarantee.Fact{journal, syncFact(d.synchronous, journal.Value == "wal")}
}

func syncFact(level int, wal bool) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "synchronous", Stronger: "synchronous: full", Survives: guarantee.ProcessCrash}
	switch {
	case level == 0:
		f.Value, f.Means = "off", "a power failure may damage the file"
	case level == 1 && wal:
		f.Value = "normal"
		f.Means = "a power failure may undo the last commits, inbox records of acknowledged messages among them"
	case level == 1:
		f.Value, f.Means = "normal", "a power failure may, rarely, damage the file"
	default:
		f.Value, f.Means = map[int]string{2: "full", 3: "extra"}[level], "a commit is on the disk of one machine"
		f.Survives, f.Stronger = guarantee.PowerLoss, ""
	}
	return f
}
