package pgstore

import (
	"context"

	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/internal/sqldb"
)

// durability are the settings that decide what a commit survives.
type durability struct{ commit, standbys, fsync, fullPages string }

// Explain returns what commits survive, as the server's settings for this session have it.
func (s *Store[Tx]) Explain(ctx context.Context) ([]guarantee.Fact, error) {
	rows, err := s.engine.core.DB.Query(ctx, s.engine.sql.Durability)
	d, _, err := sqldb.One(rows, err, func(r sqldb.Rows) (d durability, err error) {
		err = r.Scan(&d.commit, &d.standbys, &d.fsync, &d.fullPages)
		return d, err
	})
	if err != nil {
		return nil, s.engine.core.Kind(err)
	}
	return d.facts(), nil
}

func (d durability) facts() []guarantee.Fact {
	commit := guarantee.Fact{About: guarantee.Durability, Setting: "synchronous_commit", Value: d.commit}
	switch {
	case d.commit == "off":
		commit.Means = "a crash of the server undoes the last commits, inbox records of acknowledged messages among them"
		commit.Survives, commit.Stronger = guarantee.Nothing, "synchronous_commit: on"
	case d.standbys == "" || d.commit == "local":
		commit.Means = "a commit is on the disk of one machine"
		commit.Survives, commit.Stronger = guarantee.PowerLoss, "synchronous_standby_names: a standby that commits wait for"
	default:
		commit.Means = "a commit is on one more machine, " + d.standbys
		commit.Survives = guarantee.NodeLoss
	}
	intact := max(commit.Survives, guarantee.PowerLoss) // if the other two settings are on
	return []guarantee.Fact{
		commit,
		switched("fsync", d.fsync, intact, "commits are forced to the disk", "a power failure may damage anything"),
		switched("full_page_writes", d.fullPages, intact, "a page that was half written is repaired", "a power failure may leave pages half written"),
	}
}

// switched is the fact of a setting that must be on.
func switched(name, value string, intact guarantee.Survives, on, off string) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: name, Value: value, Means: on, Survives: intact}
	if value != "on" {
		f.Means, f.Survives, f.Stronger = off, guarantee.ProcessCrash, name+": on"
	}
	return f
}
