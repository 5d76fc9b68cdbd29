package mongofake

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// aggregate supports $match, then $group with sums, smallest and largest values.
func (s *Server) aggregate(c *collection, body bson.D, t *transaction) (bson.D, error) {
	var filter, group bson.D
	for i, item := range option[bson.A](body, "pipeline") {
		stage, _ := item.(bson.D)
		switch name := nameOf(stage); {
		case name == "$match" && i == 0:
			filter = option[bson.D](stage, name)
		case name == "$group" && group == nil:
			group = option[bson.D](stage, name)
		default:
			return nil, unknown("stage", name)
		}
	}
	if group == nil {
		return nil, unknown("pipeline without", "$group")
	}
	var docs bson.A
	err := s.in(t, func(t *transaction) error {
		found, err := c.query(t, filter, nil, 0, 0)
		if err != nil {
			return err
		}
		var g groups
		for _, e := range found {
			if err := g.add(scopeOf(e.read(t)), group); err != nil {
				return err
			}
		}
		docs = g.docs()
		return nil
	})
	return cursor(c, docs), err
}

// groups are the results of a $group, in the order in which they began.
type groups struct {
	keys  []string
	byKey map[string]bson.D
}

func (g *groups) docs() bson.A {
	docs := bson.A{}
	for _, key := range g.keys {
		docs = append(docs, g.byKey[key])
	}
	return docs
}

func (g *groups) add(s scope, spec bson.D) error {
	by, _ := lookup(spec, "_id")
	id, err := s.eval(by)
	if err != nil {
		return err
	}
	if id == (missing{}) {
		id = nil
	}
	key := keyOf(id)
	doc, ok := g.byKey[key]
	if !ok {
		if g.byKey == nil {
			g.byKey = make(map[string]bson.D)
		}
		g.keys = append(g.keys, key)
		doc = bson.D{{Key: "_id", Value: id}}
	}
	for _, f := range without(spec, "_id") {
		if doc, err = accumulate(s, doc, f); err != nil {
			return err
		}
	}
	g.byKey[key] = doc
	return nil
}

func accumulate(s scope, doc bson.D, f bson.E) (bson.D, error) {
	acc, _ := f.Value.(bson.D)
	name := nameOf(acc)
	if len(acc) != 1 || !strings.Contains(" $sum $min $max ", " "+name+" ") {
		return nil, unknown("accumulator", name)
	}
	value, err := s.eval(acc[0].Value)
	if err != nil {
		return nil, err
	}
	old, started := lookup(doc, f.Key)
	switch {
	case !started:
		return with(doc, f.Key, value), nil
	case name == "$sum":
		sum, err := add(old, value)
		return with(doc, f.Key, sum), err
	case name == "$min" && compare(value, old) < 0, name == "$max" && compare(value, old) > 0:
		return with(doc, f.Key, value), nil
	}
	return doc, nil
}
