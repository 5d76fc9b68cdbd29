package pgadmin

import (
	"context"
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-go/waybill/internal/sqldb"
)

// partFiles list, for each version of the schema, what its migrations have created, in the form of
// the statement parts. A test keeps them and the migrations in step.
//
//go:embed parts/*.txt
var partFiles embed.FS

// unfinished precedes an index whose creation was interrupted.
const unfinished = "unfinished "

// Parts are what a schema lacks.
type Parts struct {
	// Missing are the parts that are missing or disabled, such as "index outbox_ids (enqueued_at)"
	// or "trigger complete_message on outbox".
	Missing []string

	// Unfinished are indexes that cost writers and are not used, because their creation was
	// interrupted.
	Unfinished []string
}

// MissingParts compares the schema with what the migrations up to version make. Additional objects
// do no harm and are not reported.
func (a *Admin) MissingParts(ctx context.Context, version int) (p Parts, err error) {
	file, err := partFiles.ReadFile(fmt.Sprintf("parts/%03d.txt", version))
	if err != nil {
		return p, fmt.Errorf("the parts of version %d are not known: %w", version, err)
	}
	rows, err := a.db.DB.Query(ctx, a.sql.Parts, a.db.Schema, a.db.Prefix)
	actual, err := sqldb.Collect(rows, err, sqldb.Scan[string])
	if err != nil {
		return p, a.db.Kind(err)
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
