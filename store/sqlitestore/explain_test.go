package sqlitestore

import (
	"testing"

	"github.com/waybill-go/waybill/guarantee"
)

func TestDurability(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		d             durability
		journal, sync guarantee.Survives
	}{
		{durability{"wal", 2}, guarantee.PowerLoss, guarantee.PowerLoss},
		{durability{"wal", 1}, guarantee.PowerLoss, guarantee.ProcessCrash},
		{durability{"delete", 3}, guarantee.PowerLoss, guarantee.PowerLoss},
		{durability{"MEMORY", 2}, guarantee.Nothing, guarantee.PowerLoss},
		{durability{"off", 0}, guarantee.Nothing, guarantee.ProcessCrash},
	} {
		f := test.d.facts()
		if f[0].Survives != test.journal || f[1].Survives != test.sync {
			t.Errorf("%+v: facts() = %+v, want %d and %d", test.d, f, test.journal, test.sync)
		}
	}
}
