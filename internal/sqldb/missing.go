package sqldb

import (
	"errors"

	"github.com/waybill-go/waybill"
)

// MissingTable adds advice to the database's error that a table, column or function is missing or is that of an
// old schema. The result is a [waybill.ErrNotMigrated]. An error that says so already comes back as it is.
func MissingTable(err error) error {
	if errors.Is(err, waybill.ErrNotMigrated) {
		return err
	}
	return &missingTable{err}
}

type missingTable struct{ err error }

func (e *missingTable) Error() string {
	return e.err.Error() + `; the store's tables are missing or of an older release: call its Migrate, or run "waybill migrate"`
}

func (e *missingTable) Unwrap() error { return e.err }

func (e *missingTable) Is(target error) bool { return target == waybill.ErrNotMigrated }
