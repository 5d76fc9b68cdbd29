package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/migrate"
)

func (p *program) migrateCommand() *cobra.Command {
	var from, to int
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables, or migrate them",
		Long: `Create the tables in the database that --store names, or migrate them to this version, in one
transaction. Several processes may do so at once. --source becomes the source of messages
that other programs insert without naming one.

With --print and --from it prints what leads from one version to another, for a pipeline that
runs the SQL itself:

  waybill migrate --print --from 9 | psql -1 -v ON_ERROR_STOP=1 "$DATABASE_URL"`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if to < 0 || cmd.Flags().Changed("to") && to == 0 {
				return usagef("--to is %d, the lowest version is 1", to)
			}
			if from < 0 || from > 0 && !printOnly {
				return usagef("--from is %d; it is a version to print from, with --print", from)
			}
			if printOnly {
				return p.printMigrations(cmd, from, to)
			}
			return p.migrate(cmd, to)
		}),
	}
	cmd.Flags().IntVar(&to, "to", 0, "schema `version` to stop at (default: the newest)")
	cmd.Flags().IntVar(&from, "from", 0, "with --print: schema `version` that is there, whose steps are left out")
	cmd.Flags().BoolVar(&printOnly, "print", false, "print the SQL and change nothing; the database is not asked")
	return cmd
}

func (p *program) migrate(cmd *cobra.Command, to int) error {
	cfg, err := p.settings(cmd)
	if err != nil {
		return err
	}
	c, err := storeConfig(cfg)
	if err != nil {
		return err
	}
	c.Create = true
	store, err := opener.OpenStore(cmd.Context(), c)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := knownVersion(store, to); err != nil {
		return err
	}
	before, err := versionNow(cmd.Context(), store)
	if err != nil {
		return err
	}
	version, err := store.Migrate(cmd.Context(), cfg.String("source"), to)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]int{"schema_version": version, "previous_version": before})
	}
	if _, err = fmt.Fprintln(p.stdout, migrated(before, version)); err != nil {
		return err
	}
	if newest := len(store.Migrations()); to == 0 && version < newest {
		p.hintf("Version %d is left for when the relays of earlier versions have ended. Replace every program, then run: waybill migrate", newest)
	}
	return nil
}

// versionNow returns the version of the schema, whether this release works with it or not.
func versionNow(ctx context.Context, store opener.Store) (int, error) {
	version, err := store.SchemaVersion(ctx)
	var unfit *migrate.VersionError
	if errors.As(err, &unfit) {
		return unfit.Version, nil
	}
	return version, err
}

// migrated describes what was done.
func migrated(before, now int) string {
	switch before {
	case 0:
		return fmt.Sprintf("Created the tables; the schema has version %d.", now)
	case now:
		return fmt.Sprintf("Nothing to migrate: the schema has version %d.", now)
	}
	return fmt.Sprintf("Migrated the schema from version %d to %d.", before, now)
}

func knownVersion(store opener.Store, to int) error {
	if newest := len(store.Migrations()); to > newest {
		return usagef("--to is %d, the newest version is %d", to, newest)
	}
	return nil
}

// unasked returns the configured store without querying the database. The caller closes it.
func (p *program) unasked(cmd *cobra.Command) (opener.Store, error) {
	cfg, err := p.settings(cmd)
	if err != nil {
		return nil, err
	}
	c, err := storeConfig(cfg)
	if err != nil {
		return nil, err
	}
	return opener.NewStore(c)
}

// printMigrations prints the SQL of the steps from one version to another, 0 for the newest.
func (p *program) printMigrations(cmd *cobra.Command, from, to int) error {
	store, err := p.unasked(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := knownVersion(store, to); err != nil {
		return err
	}
	last := cmp.Or(to, len(store.Migrations()))
	if from > last {
		return usagef("--from is %d, the last version to print is %d", from, last)
	}
	for _, m := range store.Migrations()[from:last] {
		if _, err := fmt.Fprintf(p.stdout, "-- %s\n\n%s\n\n", m.Name, strings.TrimSpace(m.Up)); err != nil {
			return err
		}
	}
	return nil
}
