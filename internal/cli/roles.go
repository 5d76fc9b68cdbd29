package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

const defaultRolePrefix = "waybill_"

func (p *program) rolesCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "roles",
		Short: "Print the SQL that makes roles with the least rights",
		Long: `Print the SQL that makes a role of PostgreSQL, MariaDB or MySQL for each job: writer, relay,
consumer, operator and reader, on PostgreSQL also scheduler, with the rights that it needs and no others. Nothing is changed,
and the database is not asked. The owner of the tables runs it, after each migration:

  waybill roles | psql -v ON_ERROR_STOP=1 "$DATABASE_URL"

A program logs in with a role of its own that is a member of one or several:

  CREATE ROLE shop LOGIN PASSWORD '…' IN ROLE waybill_writer, waybill_consumer;

For MariaDB and MySQL the script is for the database in which it is run:

  waybill roles | mysql shop

Its users have a default role: GRANT waybill_writer TO shop, and then SET DEFAULT ROLE.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.printRoles(cmd, prefix) }),
	}
	cmd.Flags().StringVar(&prefix, "prefix", defaultRolePrefix, "put before the name of each role")
	return cmd
}

func (p *program) printRoles(cmd *cobra.Command, prefix string) error {
	store, err := p.unasked(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	maker, is := store.(interface {
		RolesSQL(prefix string) (string, error)
	})
	if !is {
		return usagef("%s has no roles: who can read the file may do everything", store.Address())
	}
	script, err := maker.RolesSQL(prefix)
	if err != nil {
		return usagef("--%v", err)
	}
	_, err = fmt.Fprint(p.stdout, script)
	return err
}
