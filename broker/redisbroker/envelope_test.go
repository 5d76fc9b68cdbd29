package redisbroker

import (
	"reflect"
	"testing"

	"github.com/redis/go-redis/v9"
)

// received returns the entry of the sample as the client library hands it over.
func received() redis.XMessage {
	fields, _ := encode(sample())
	values := make(map[string]any)
	for i := 0; i < len(fields); i += 2 {
		values[fields[i]] = fields[i+1]
	}
	return redis.XMessage{ID: "1-0", Values: values}
}

func TestDecode_RoundTrip(t *testing.T) {
	t.Parallel()
	m, err := decode(source{topic: "orders"}, received())
	if want := sample(); err != nil || !reflect.DeepEqual(m, want) {
		t.Errorf("decode() = %+v, %v, want %+v", m, err, want)
	}
}

// TestDecode_Allocations fails if each field costs an allocation. The message, its payload and its
// headers are 4 of them. The test is not parallel, as it counts what the whole program allocates.
func TestDecode_Allocations(t *testing.T) {
	entry := received()
	if got := testing.AllocsPerRun(100, func() { _, _ = decode(source{topic: "orders"}, entry) }); got > 4 {
		t.Errorf("%.0f allocations, want 4 at most", got)
	}
}
