package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
)

func (p *program) migrateCommand() *cobra.Command {
	var to int
	var printOnly bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Create the tables, or bring them up to date",
		Long: `Create the tables in the database that --store names, or bring them up to date, in one
transaction. Several processes may do so at once. --source becomes the source of messages
that other programs insert without naming one.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			if to < 0 || cmd.Flags().Changed("to") && to == 0 {
				return usagef("--to is %d, the lowest version is 1", to)
			}
			if printOnly {
				return p.printMigrations(cmd, to)
			}
			return p.migrate(cmd, to)
		}),
	}
	cmd.Flags().IntVar(&to, "to", 0, "schema `version` to stop at (default: the newest)")
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
	version, err := store.Migrate(cmd.Context(), cfg.String("source"), to)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(map[string]int{"schema_version": version})
	}
	_, err = fmt.Fprintf(p.stdout, "The schema has version %d.\n", version)
	return err
}

func knownVersion(store opener.Store, to int) error {
	if newest := len(store.Migrations()); to > newest {
		return usagef("--to is %d, the newest version is %d", to, newest)
	}
	return nil
}

// unasked returns the store that is configured, without asking the database. The caller
// closes it.
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

// printMigrations prints the SQL of all steps up to a version, 0 for the newest.
func (p *program) printMigrations(cmd *cobra.Command, to int) error {
	store, err := p.unasked(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := knownVersion(store, to); err != nil {
		return err
	}
	for _, m := range store.Migrations() {
		if to != 0 && m.Version > to {
			break
		}
		if _, err := fmt.Fprintf(p.stdout, "-- %s\n\n%s\n\n", m.Name, strings.TrimSpace(m.Up)); err != nil {
			return err
		}
	}
	return nil
}
