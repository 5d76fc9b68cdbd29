package mysqlstore

import (
	"slices"
	"testing"
)

func TestBind(t *testing.T) {
	t.Parallel()
	n, err := newNames("$1?")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, sql string
		args      []any
		want      string
		wantArgs  []any
	}{
		{"in another order, twice", "{inbox} $2 $1 $2", []any{"a", "b"}, "`$1?inbox` ? ? ?", []any{"b", "a", "b"}},
		{"two digits", "$11 $1", []any{1: 2, 10: "k", 0: "a"}, "? ?", []any{"k", "a"}},
		{"lists", "IN ($1) ($2) ($3)", []any{[]int64{7, 8}, []string{"x", "y"}, []int{9}}, "IN (7,8) (?, ?) (9)", []any{"x", "y"}},
		{"empty lists", "IN ($1) ($2)", []any{[]int64{}, []string(nil)}, "IN (NULL) (NULL)", nil},
		{"not used", "$2", []any{"a", "b"}, "?", []any{"b"}},
		{"a JSON path is no parameter", "'$[*]' $1", []any{1}, "'$[*]' ?", []any{1}},
		{"without parameters", "VALUES (?, ?)", []any{1, 2}, "VALUES (?, ?)", []any{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sql, args := bind(n.render(tt.sql), tt.args)
			if sql != tt.want || !slices.Equal(args, tt.wantArgs) {
				t.Errorf("bind() = %q, %v, want %q, %v", sql, args, tt.want, tt.wantArgs)
			}
		})
	}
}
