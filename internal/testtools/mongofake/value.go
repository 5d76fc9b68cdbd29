package mongofake

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// lookup returns the value at a dotted path, and whether there is one. It does not look into
// arrays.
func lookup(doc bson.D, path string) (any, bool) {
	name, rest, nested := strings.Cut(path, ".")
	for _, e := range doc {
		if e.Key != name {
			continue
		}
		if !nested {
			return e.Value, true
		}
		inner, _ := e.Value.(bson.D)
		return lookup(inner, rest)
	}
	return nil, false
}

// with returns a copy of doc with a value at a dotted path.
func with(doc bson.D, path string, value any) bson.D {
	name, rest, nested := strings.Cut(path, ".")
	i := slices.IndexFunc(doc, func(e bson.E) bool { return e.Key == name })
	doc = slices.Clone(doc)
	if i < 0 {
		doc = append(doc, bson.E{Key: name})
		i = len(doc) - 1
	}
	if nested {
		inner, _ := doc[i].Value.(bson.D)
		value = with(inner, rest, value)
	}
	doc[i].Value = value
	return doc
}

// without returns a copy of doc without what is at a dotted path.
func without(doc bson.D, path string) bson.D {
	name, rest, nested := strings.Cut(path, ".")
	if nested {
		if inner, ok := lookup(doc, name); ok {
			if d, ok := inner.(bson.D); ok {
				return with(doc, name, without(d, rest))
			}
		}
		return doc
	}
	return slices.DeleteFunc(slices.Clone(doc), func(e bson.E) bool { return e.Key == name })
}

// option reads a field of a command. It returns the zero value if there is none of the type.
func option[T any](doc bson.D, name string) T {
	v, _ := lookup(doc, name)
	t, _ := v.(T)
	return t
}

func number(v any) (float64, bool) {
	switch n := v.(type) {
	case int32:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// count reads a number of a command, 0 if there is none.
func count(doc bson.D, name string) int {
	v, _ := lookup(doc, name)
	n, _ := number(v)
	return int(n)
}

// truth reports whether MongoDB treats a value as true in expressions and options.
func truth(v any) bool {
	if n, ok := number(v); ok {
		return n != 0
	}
	return v != nil && v != false && v != missing{}
}

// rank is the order of types.
func rank(v any) int {
	switch v.(type) {
	case missing:
		return 0
	case nil:
		return 1
	case int32, int64, float64:
		return 2
	case string:
		return 3
	case bson.D:
		return 4
	case bson.A:
		return 5
	case bson.Binary:
		return 6
	case bson.ObjectID:
		return 7
	case bool:
		return 8
	case bson.DateTime:
		return 9
	}
	return 99
}

// compare orders values as MongoDB does: by type, then by value.
func compare(a, b any) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	switch x := a.(type) {
	case int32, int64, float64:
		return compareNumbers(a, b)
	case string:
		return cmp.Compare(x, b.(string))
	case bson.D:
		return slices.CompareFunc(x, b.(bson.D), func(e, f bson.E) int {
			return cmp.Or(cmp.Compare(rank(e.Value), rank(f.Value)), cmp.Compare(e.Key, f.Key), compare(e.Value, f.Value))
		})
	case bson.A:
		return slices.CompareFunc(x, b.(bson.A), compare)
	case bson.Binary:
		return bytes.Compare(x.Data, b.(bson.Binary).Data)
	case bson.ObjectID:
		y := b.(bson.ObjectID)
		return bytes.Compare(x[:], y[:])
	case bool:
		return cmp.Compare(btoi(x), btoi(b.(bool)))
	case bson.DateTime:
		return cmp.Compare(x, b.(bson.DateTime))
	}
	return 0
}

// compareNumbers distinguishes large integers that are equal as floating-point numbers.
func compareNumbers(a, b any) int {
	x, xWhole := whole(a)
	y, yWhole := whole(b)
	if xWhole && yWhole {
		return cmp.Compare(x, y)
	}
	f, _ := number(a)
	g, _ := number(b)
	return cmp.Compare(f, g)
}

func whole(v any) (int64, bool) {
	switch n := v.(type) {
	case int32:
		return int64(n), true
	case int64:
		return n, true
	}
	return 0, false
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// keyOf returns the same text for values that are equal, and another one for others.
func keyOf(v any) string {
	switch x := v.(type) {
	case missing, nil:
		return "null"
	case int32, int64:
		return fmt.Sprint("n", x)
	case float64:
		if x == float64(int64(x)) {
			return fmt.Sprint("n", int64(x))
		}
		return fmt.Sprint("n", x)
	case bson.D:
		var text strings.Builder
		for _, e := range x {
			fmt.Fprintf(&text, "%q:%s,", e.Key, keyOf(e.Value))
		}
		return "{" + text.String() + "}"
	case bson.A:
		var text strings.Builder
		for _, e := range x {
			text.WriteString(keyOf(e) + ",")
		}
		return "[" + text.String() + "]"
	}
	return fmt.Sprintf("%d%q", rank(v), fmt.Sprint(v))
}

// add returns the sum of two numbers, or of a date and milliseconds.
func add(a, b any) (any, error) {
	if d, ok := a.(bson.DateTime); ok {
		ms, ok := number(b)
		if !ok {
			return nil, bad("cannot add %T to a date", b)
		}
		return d + bson.DateTime(ms), nil
	}
	x, xWhole := whole(a)
	y, yWhole := whole(b)
	if xWhole && yWhole {
		if sum := x + y; sum != int64(int32(sum)) || is64(a) || is64(b) {
			return sum, nil
		}
		return int32(x + y), nil
	}
	f, ok := number(a)
	g, also := number(b)
	if !ok || !also {
		return nil, bad("cannot add %T and %T", a, b)
	}
	return f + g, nil
}

// multiply returns a double, whatever it is given.
func multiply(a, b any) (any, error) {
	x, ok := number(a)
	y, also := number(b)
	if !ok || !also {
		return nil, bad("cannot multiply %T and %T", a, b)
	}
	return x * y, nil
}

func is64(v any) bool { _, ok := v.(int64); return ok }
