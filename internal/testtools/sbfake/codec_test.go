package sbfake

import (
	"reflect"
	"testing"
	"time"
)

func TestCodec_RoundTrip(t *testing.T) {
	t.Parallel()
	want := list{nil, true, uint8(1), uint16(2), uint32(3), uint64(4), int32(-5), int64(-6), "s", symbol("y"), []byte("b"),
		uuid{7}, time.UnixMilli(8), table{{symbol("k"), list{}}}, described{0x137000000c, "v"}, described{0x24, list{}}}
	b, err := encode(nil, want)
	if err != nil {
		t.Fatal(err)
	}
	d := &decoder{b: b}
	if got := d.value(); d.err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %v, %v, want %v", got, d.err, want)
	}
}

// Nothing that comes in makes the decoder panic.
func FuzzDecoder(f *testing.F) {
	b, err := encode(nil, list{"a", table{{"k", uint32(1)}}, symbols{"x"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &decoder{b: b}
		d.value()
	})
}
