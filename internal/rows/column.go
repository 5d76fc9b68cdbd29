package rows

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Column of the rows of a table, which conditions and orders name.
type Column[V any, T comparable] struct {
	Name    string
	of      func(V) T
	compare func(a, b T) int
}

func column[V any, T cmp.Ordered](name string, of func(V) T) Column[V, T] {
	return Column[V, T]{name, of, cmp.Compare[T]}
}

func flag[V any](name string, of func(V) bool) Column[V, bool] {
	return Column[V, bool]{Name: name, of: of}
}

// A Condition is true or false of a row. Stores translate Column, Op and Values, or Any, into their own
// language, or call Holds.
type Condition[V any] struct {
	Column string
	Op     Op
	Values []any            // one, but for In and NotIn; a nil stands for no time
	Any    [][]Condition[V] // of an Op Any: all conditions of one of these lists must hold
	Holds  func(V) bool
}

// Op is how a column is compared.
type Op int

// The ways to compare. A row without a time in a column meets no condition on it except Equal nil.
const (
	Equal    Op = iota
	NotEqual    // with nil only
	In
	NotIn
	Below
	AtMost
	Above
	AtLeast
	Contains // text, whatever its case
	Any
)

func anys[T any](values []T) []any {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	return list
}

func (c Column[V, T]) is(v T) Condition[V] {
	return Condition[V]{Column: c.Name, Op: Equal, Values: []any{v}, Holds: func(r V) bool { return c.of(r) == v }}
}

// isIf returns no condition if v is the zero value.
func (c Column[V, T]) isIf(v T) []Condition[V] {
	var zero T
	if v == zero {
		return nil
	}
	return []Condition[V]{c.is(v)}
}

func (c Column[V, T]) in(values ...T) Condition[V] {
	set := setOf(values)
	return Condition[V]{Column: c.Name, Op: In, Values: anys(values), Holds: func(r V) bool { return set(c.of(r)) }}
}

func (c Column[V, T]) notIn(values ...T) Condition[V] {
	set := setOf(values)
	return Condition[V]{Column: c.Name, Op: NotIn, Values: anys(values), Holds: func(r V) bool { return !set(c.of(r)) }}
}

// setOf returns a function that reports whether a value is among values, by a set that is built at its first
// call: stores on a server never call it.
func setOf[T comparable](values []T) func(T) bool {
	var set map[T]bool
	return func(v T) bool {
		if set == nil {
			set = make(map[T]bool, len(values))
			for _, v := range values {
				set[v] = true
			}
		}
		return set[v]
	}
}

func (c Column[V, T]) than(op Op, v T, holds func(compared int) bool) Condition[V] {
	return Condition[V]{Column: c.Name, Op: op, Values: []any{v}, Holds: func(r V) bool { return holds(c.compare(c.of(r), v)) }}
}

func (c Column[V, T]) below(v T) Condition[V] {
	return c.than(Below, v, func(n int) bool { return n < 0 })
}

func (c Column[V, T]) atMost(v T) Condition[V] {
	return c.than(AtMost, v, func(n int) bool { return n <= 0 })
}

func (c Column[V, T]) above(v T) Condition[V] {
	return c.than(Above, v, func(n int) bool { return n > 0 })
}

// A TimeColumn is a column of times. The zero time stands for none.
type TimeColumn[V any] struct {
	Name string
	of   func(V) time.Time
}

func (c TimeColumn[V]) none() Condition[V] {
	return Condition[V]{Column: c.Name, Op: Equal, Values: []any{nil}, Holds: func(r V) bool { return c.of(r).IsZero() }}
}

func (c TimeColumn[V]) some() Condition[V] {
	return Condition[V]{Column: c.Name, Op: NotEqual, Values: []any{nil}, Holds: func(r V) bool { return !c.of(r).IsZero() }}
}

func (c TimeColumn[V]) than(op Op, t time.Time, holds func(compared int) bool) Condition[V] {
	return Condition[V]{Column: c.Name, Op: op, Values: []any{t}, Holds: func(r V) bool {
		at := c.of(r)
		return !at.IsZero() && holds(at.Compare(t))
	}}
}

func (c TimeColumn[V]) atMost(t time.Time) Condition[V] {
	return c.than(AtMost, t, func(n int) bool { return n <= 0 })
}

func (c TimeColumn[V]) atLeast(t time.Time) Condition[V] {
	return c.than(AtLeast, t, func(n int) bool { return n >= 0 })
}

func (c TimeColumn[V]) below(t time.Time) Condition[V] {
	return c.than(Below, t, func(n int) bool { return n < 0 })
}

// anyOf holds where all conditions of one of the lists do.
func anyOf[V any](lists ...[]Condition[V]) Condition[V] {
	return Condition[V]{Op: Any, Any: lists, Holds: func(r V) bool {
		return slices.ContainsFunc(lists, func(list []Condition[V]) bool { return all(list, r) })
	}}
}

func all[V any](list []Condition[V], r V) bool {
	return !slices.ContainsFunc(list, func(c Condition[V]) bool { return !c.Holds(r) })
}

// contains holds where one of the columns contains a text, whatever its case; it is no condition if the text is
// empty.
func contains[V any](text string, columns ...Column[V, string]) []Condition[V] {
	if text == "" {
		return nil
	}
	lower := strings.ToLower(text)
	var lists [][]Condition[V]
	for _, c := range columns {
		lists = append(lists, []Condition[V]{{Column: c.Name, Op: Contains, Values: []any{text}, Holds: func(r V) bool {
			return strings.Contains(strings.ToLower(c.of(r)), lower)
		}}})
	}
	return []Condition[V]{anyOf(lists...)}
}

// An Order of rows.
type Order[V any] struct {
	Column  string
	Falling bool
	Compare func(a, b V) int // as the order is
}

func (c Column[V, T]) rising() Order[V] {
	return Order[V]{c.Name, false, func(a, b V) int { return c.compare(c.of(a), c.of(b)) }}
}

func (c Column[V, T]) falling() Order[V] {
	return Order[V]{c.Name, true, func(a, b V) int { return c.compare(c.of(b), c.of(a)) }}
}

func (c TimeColumn[V]) rising() Order[V] {
	return Order[V]{c.Name, false, func(a, b V) int { return c.of(a).Compare(c.of(b)) }}
}

func (c TimeColumn[V]) falling() Order[V] {
	return Order[V]{c.Name, true, func(a, b V) int { return c.of(b).Compare(c.of(a)) }}
}

// A Query asks for rows of a table.
type Query[V any] struct {
	Where []Condition[V] // all must hold
	Order []Order[V]
	Skip  int
	Limit int      // 0 is no limit
	Bytes int      // no further row is needed once payloads have this many bytes; 0 is no limit
	Only  []string // the columns that are needed, apart from what identifies the row; nil is all
	Lean  bool     // neither payload nor history are needed
}

// Holds reports whether all conditions hold of a row.
func (q *Query[V]) Holds(r V) bool { return all(q.Where, r) }

func where[V any](conditions ...Condition[V]) Query[V] { return Query[V]{Where: conditions} }

func (q Query[V]) sorted(by ...Order[V]) Query[V] {
	q.Order = by
	return q
}

func (q Query[V]) first(n int) Query[V] {
	q.Limit = n
	return q
}

func (q Query[V]) only(columns ...string) Query[V] {
	q.Only = columns
	return q
}
