package record

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill"
)

func TestOpen_Invalid(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1<<20 - 1, 1<<30 + 1, -1} {
		_, err := Open(filepath.Join(t.TempDir(), "x"), Config{Size: size})
		var invalid *waybill.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "record.Config.Size" {
			t.Errorf("Open() with %d bytes = %v, want what is wrong with Size", size, err)
		}
	}
}
