package mysqlstore

import (
	"context"

	"github.com/waybill-go/waybill/guarantee"
)

// Explain returns what commits survive, as the server's settings have it.
func (s *Store) Explain(ctx context.Context) ([]guarantee.Fact, error) {
	var flush, sync, binlog string
	if err := s.db.QueryRowContext(ctx, s.sql.Durability).Scan(&flush, &sync, &binlog); err != nil {
		return nil, s.core.Kind(err)
	}
	facts := []guarantee.Fact{flushFact(flush)}
	if binlog == "1" {
		facts = append(facts, binlogFact(sync))
	}
	return facts, nil
}

func flushFact(value string) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "innodb_flush_log_at_trx_commit", Value: value,
		Stronger: "innodb_flush_log_at_trx_commit: 1"}
	switch value {
	case "1", "3": // 3 is MariaDB's, with one sync more
		f.Means, f.Survives = "a commit is on the disk of one machine", guarantee.PowerLoss
		f.Stronger = "semi-synchronous replication"
	case "2":
		f.Means = "a power failure undoes the commits of about the last second, inbox records of acknowledged messages among them"
		f.Survives = guarantee.ProcessCrash
	default:
		f.Means = "a crash of the server undoes the commits of about the last second, inbox records of acknowledged messages among them"
		f.Survives = guarantee.Nothing
	}
	return f
}

func binlogFact(value string) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "sync_binlog", Value: value, Survives: guarantee.PowerLoss,
		Means: "the binary log, which replicas read, keeps up with the commits"}
	if value != "1" {
		f.Means = "after a power failure replicas may lack commits that the server has, or the other way round"
		f.Survives, f.Stronger = guarantee.ProcessCrash, "sync_binlog: 1"
	}
	return f
}
