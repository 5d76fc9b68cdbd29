package interleave

import (
	"slices"
	"testing"
)

func TestNext(t *testing.T) {
	t.Parallel()
	path := []choice{{[]int{0, 1}, 0}}
	var taken []int
	for more := true; more; {
		for len(path) < 2 { // a run makes the first choice where none is given
			path = append(path, choice{[]int{0, 1}, 0})
		}
		taken = append(taken, 10*path[0].taken+path[1].taken)
		path, more = next(path)
	}
	if want := []int{0, 1, 10, 11}; !slices.Equal(taken, want) {
		t.Errorf("orders %v, want %v", taken, want)
	}
}

func TestStandStill(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		run   []int
		waits map[int][]int
		want  bool
	}{
		{"nobody runs", nil, nil, true},
		{"one runs", []int{1}, nil, false},
		{"one waits for one with a request", []int{1}, map[int][]int{1: {0}}, true},
		{"one waits for one that waits", []int{1, 2}, map[int][]int{1: {2}, 2: {0}}, true},
		{"two wait for each other", []int{1, 2}, map[int][]int{1: {2}, 2: {1}}, false},
		{"one waits for two, of which one runs", []int{1, 2}, map[int][]int{1: {0, 2}}, false},
		{"one waits for a stranger", []int{1}, map[int][]int{1: {-1}}, false},
	} {
		if got := standStill(tt.run, 3, tt.waits); got != tt.want {
			t.Errorf("%s: standStill() = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	message := func(kind byte, body string) []byte {
		return append([]byte{kind, 0, 0, 0, byte(4 + len(body))}, body...)
	}
	parse := slices.Concat(message('P', "name"), message('D', "S"), message('S', ""))
	for _, tt := range []struct {
		name    string
		request []byte
		want    bool
	}{
		{"a query", message('Q', "BEGIN"), true},
		{"prepared only", parse, false},
		{"prepared and run", slices.Concat(parse[:len(parse)-5], message('B', ""), message('E', ""), message('S', "")), true},
		{"nothing", nil, false},
		{"the beginning of a long one", []byte{'P', 0, 0, 1, 0, 'x'}, false},
		{"a size that is none", []byte{'P', 0, 0, 0, 0, 'Q', 0, 0, 0, 5, 'x'}, false},
	} {
		if got := PostgreSQL(tt.request); got != tt.want {
			t.Errorf("%s: PostgreSQL() = %v, want %v", tt.name, got, tt.want)
		}
	}
}
