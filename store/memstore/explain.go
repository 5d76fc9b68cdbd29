package memstore

import (
	"context"

	"github.com/waybill-go/waybill/guarantee"
)

// Explain returns one fact: commits do not survive the process.
func (s *Store) Explain(context.Context) ([]guarantee.Fact, error) {
	return []guarantee.Fact{{About: guarantee.Durability, Survives: guarantee.Nothing,
		Means: "everything ends with the process; for tests"}}, nil
}
