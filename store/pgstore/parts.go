package pgstore

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// partFiles say, for each version of the schema, what its migrations have made, as partsSQL
// says it. A test holds them and the migrations together.
//
//go:embed parts/*.txt
var partFiles embed.FS

// partsSQL describes the tables, indexes, triggers, checks and functions of the schema, one line
// each, without the prefix. Names of indexes do not matter: one that was made again, beside
// the old one, has another. What is switched off or was never finished is not listed, but for
// indexes, which are listed as such.
const partsSQL = `
WITH named AS (
    SELECT c.oid, c.relkind, substr(c.relname, char_length($2) + 1) AS name
      FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND starts_with(c.relname, $2)
)
SELECT CASE relkind WHEN 'v' THEN 'view ' WHEN 'S' THEN 'sequence ' ELSE 'table ' END || name
  FROM named WHERE relkind IN ('r', 'p', 'v', 'S')
UNION ALL
SELECT CASE WHEN NOT (x.indisvalid AND x.indisready) THEN '` + unfinished + `' ELSE '' END
       || CASE WHEN x.indisprimary THEN 'primary key ' WHEN x.indisunique THEN 'unique index ' ELSE 'index ' END || t.name
       || ' (' || (SELECT string_agg(a.attname, ', ' ORDER BY k.n) FILTER (WHERE k.n <= x.indnkeyatts) || ')'
                   || coalesce(' INCLUDE (' || string_agg(a.attname, ', ' ORDER BY k.n) FILTER (WHERE k.n > x.indnkeyatts) || ')', '')
                     FROM unnest(x.indkey) WITH ORDINALITY AS k(number, n)
                     JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.number)
       || coalesce(' WHERE ' || pg_get_expr(x.indpred, x.indrelid), '')
  FROM pg_catalog.pg_index x JOIN named t ON t.oid = x.indrelid
UNION ALL
SELECT 'trigger ' || g.tgname || ' on ' || t.name
  FROM pg_catalog.pg_trigger g JOIN named t ON t.oid = g.tgrelid
 WHERE NOT g.tgisinternal AND g.tgenabled IN ('O', 'A')
UNION ALL
SELECT 'check on ' || t.name || ' (' || (SELECT string_agg(a.attname, ', ' ORDER BY a.attnum) FROM pg_catalog.pg_attribute a
                                          WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)) || ')'
  FROM pg_catalog.pg_constraint k JOIN named t ON t.oid = k.conrelid
 WHERE k.contype = 'c'
UNION ALL
SELECT 'function ' || substr(f.proname, char_length($2) + 1)
  FROM pg_catalog.pg_proc f JOIN pg_catalog.pg_namespace n ON n.oid = f.pronamespace
 WHERE n.nspname = $1 AND starts_with(f.proname, $2)`

// unfinished is said of an index that was not made to its end.
const unfinished = "unfinished "

// Parts are what a schema should have and has not.
type Parts struct {
	// Missing are the parts that are not there, or are switched off, such as
	// "index outbox_ids (enqueued_at)" or "trigger complete_message on outbox".
	Missing []string

	// Unfinished are indexes that cost writers and serve nobody, because what made them was
	// interrupted.
	Unfinished []string
}

// MissingParts compares the schema with what the migrations up to version make. What is there
// beyond that does no harm and is not reported.
func (s *Store[Tx]) MissingParts(ctx context.Context, version int) (p Parts, err error) {
	file, err := partFiles.ReadFile(fmt.Sprintf("parts/%03d.txt", version))
	if err != nil {
		return p, fmt.Errorf("the parts of version %d are not known: %w", version, err)
	}
	rows, err := s.core.DB.Query(ctx, partsSQL, s.names.schema, s.names.prefix)
	actual, err := sqldb.Collect(rows, err, sqldb.Scan[string])
	if err != nil {
		return p, s.core.Kind(err)
	}
	for _, want := range strings.Split(strings.TrimSpace(string(file)), "\n") {
		if !slices.Contains(actual, want) {
			p.Missing = append(p.Missing, want)
		}
	}
	for _, line := range actual {
		if index, is := strings.CutPrefix(line, unfinished); is {
			p.Unfinished = append(p.Unfinished, index)
		}
	}
	return p, nil
}
