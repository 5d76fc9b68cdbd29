package conformance

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/pgstore"
)

// TestPostgres_PartsOfEachVersion holds the lists of what each version of the schema has
// against what its migrations make.
func TestPostgres_PartsOfEachVersion(t *testing.T) {
	t.Parallel()
	p := newPostgres(t, nil, pgstore.Config{})
	newest, err := pgstore.New(p.pool, pgstore.Config{Schema: "parts"})
	must(t, err)
	for _, m := range newest.Migrations() {
		cfg := pgstore.Config{Schema: "parts_" + strings.ReplaceAll(waybill.NewID(), "-", "")[12:]}
		s, err := pgstore.New(p.pool, cfg)
		must(t, err)
		t.Cleanup(func() { p.drop(t, cfg) })
		_, err = s.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Version: m.Version})
		must(t, err)
		parts, err := s.Admin().MissingParts(t.Context(), m.Version)
		must(t, err)
		if len(parts.Missing)+len(parts.Unfinished) > 0 {
			t.Errorf("version %d: %+v, want nothing", m.Version, parts)
		}
	}
}
