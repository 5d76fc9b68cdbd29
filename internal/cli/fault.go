package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
)

// withTables opens the store for fn and makes sure that it has its tables. Errors of the
// store are returned as one line that names it.
func (p *program) withTables(fn func(cmd *cobra.Command, store opener.Store, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		store, _, err := p.openStore(cmd)
		if err != nil {
			return err
		}
		defer store.Close()
		if err := checkSchema(cmd.Context(), store); err != nil {
			return storeError(store, err)
		}
		return storeError(store, fn(cmd, store, args))
	}
}

// checkSchema makes sure that this release supports the tables.
func checkSchema(ctx context.Context, store opener.Store) error {
	version, err := store.SchemaVersion(ctx)
	switch {
	case err == nil && version == 0:
		return fmt.Errorf("the store %s has no tables yet; run: waybill migrate, or name the --schema that they are in", store.Address())
	case err != nil && version > 0:
		return fmt.Errorf("the store %s: %w", store.Address(), err)
	}
	return err
}

// storeError adds the name of the store to an error of one that refuses us, or is gone.
func storeError(store opener.Store, err error) error {
	if what := opener.Denied(err); what != "" {
		return fmt.Errorf("the store %s refuses: %s; \"waybill doctor\" shows what the role lacks", store.Address(), what)
	}
	var known *opener.UnreachableError
	if waybill.IsUnavailable(err) && !errors.Is(err, context.Canceled) && !errors.As(err, &known) {
		return &opener.UnreachableError{What: "store", Address: store.Address(), Err: err}
	}
	return err
}
