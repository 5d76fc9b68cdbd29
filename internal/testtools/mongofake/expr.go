package mongofake

import (
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// missing is the value of a field that is not there.
type missing struct{}

// scope is what an expression can see.
type scope struct {
	root bson.D
	now  bson.DateTime
}

func scopeOf(doc bson.D) scope { return scope{root: doc, now: bson.NewDateTimeFromTime(time.Now())} }

// eval returns the value of an aggregation expression.
func (s scope) eval(expr any) (any, error) {
	switch x := expr.(type) {
	case string:
		return s.variable(x)
	case bson.D:
		if len(x) == 1 && strings.HasPrefix(x[0].Key, "$") {
			return s.apply(x[0].Key, x[0].Value)
		}
		return s.object(x)
	case bson.A:
		return nil, unknown("expression", "array")
	}
	return expr, nil
}

func (s scope) variable(text string) (any, error) {
	switch {
	case text == "$$NOW":
		return s.now, nil
	case text == "$$ROOT":
		return s.root, nil
	case strings.HasPrefix(text, "$$"):
		return nil, unknown("variable", text)
	case !strings.HasPrefix(text, "$"):
		return text, nil
	}
	if v, ok := lookup(s.root, text[1:]); ok {
		return v, nil
	}
	return missing{}, nil
}

// object evaluates the fields of a document; missing ones are left out.
func (s scope) object(fields bson.D) (any, error) {
	doc := bson.D{}
	for _, f := range fields {
		if strings.HasPrefix(f.Key, "$") {
			return nil, unknown("expression", f.Key)
		}
		v, err := s.eval(f.Value)
		if err != nil {
			return nil, err
		}
		if v != (missing{}) {
			doc = append(doc, bson.E{Key: f.Key, Value: v})
		}
	}
	return doc, nil
}

// operators are those whose arguments are all evaluated first, with the number of these; -1 is any
// number.
var operators = map[string]struct {
	takes int
	apply func(args []any) (any, error)
}{
	"$eq":           {2, comparison(func(c int) bool { return c == 0 })},
	"$ne":           {2, comparison(func(c int) bool { return c != 0 })},
	"$gt":           {2, comparison(func(c int) bool { return c > 0 })},
	"$gte":          {2, comparison(func(c int) bool { return c >= 0 })},
	"$lt":           {2, comparison(func(c int) bool { return c < 0 })},
	"$lte":          {2, comparison(func(c int) bool { return c <= 0 })},
	"$and":          {-1, func(args []any) (any, error) { return allAre(args, true), nil }},
	"$or":           {-1, func(args []any) (any, error) { return !allAre(args, false), nil }},
	"$not":          {1, func(args []any) (any, error) { return !truth(args[0]), nil }},
	"$add":          {2, func(args []any) (any, error) { return add(args[0], args[1]) }},
	"$multiply":     {2, func(args []any) (any, error) { return multiply(args[0], args[1]) }},
	"$cond":         {3, choose},
	"$ifNull":       {2, ifNull},
	"$mergeObjects": {-1, merge},
}

func (s scope) apply(name string, arg any) (any, error) {
	if name == "$literal" {
		return arg, nil
	}
	op, ok := operators[name]
	if !ok {
		return nil, unknown("expression", name)
	}
	list, isList := arg.(bson.A)
	if !isList {
		list = bson.A{arg}
	}
	if op.takes >= 0 && len(list) != op.takes {
		return nil, bad("%s takes %d arguments, not %d", name, op.takes, len(list))
	}
	args := make([]any, len(list))
	for i, a := range list {
		var err error
		if args[i], err = s.eval(a); err != nil {
			return nil, err
		}
	}
	return op.apply(args)
}

func comparison(holds func(int) bool) func([]any) (any, error) {
	return func(args []any) (any, error) { return holds(compare(args[0], args[1])), nil }
}

func allAre(args []any, want bool) bool {
	for _, a := range args {
		if truth(a) != want {
			return false
		}
	}
	return true
}

func choose(args []any) (any, error) {
	if truth(args[0]) {
		return args[1], nil
	}
	return args[2], nil
}

func ifNull(args []any) (any, error) {
	if args[0] == nil || args[0] == (missing{}) {
		return args[1], nil
	}
	return args[0], nil
}

func merge(args []any) (any, error) {
	doc := bson.D{}
	for _, a := range args {
		fields, ok := a.(bson.D)
		if !ok {
			return nil, bad("$mergeObjects takes documents, not %T", a)
		}
		for _, f := range fields {
			doc = with(doc, f.Key, f.Value)
		}
	}
	return doc, nil
}
