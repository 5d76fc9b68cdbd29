package mongofake

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// valueSet is the list of an $in or $nin, by the keys of its values.
type valueSet map[string]bool

// prepared returns a filter with its lists as sets, so that matching many documents is fast.
func prepared(filter bson.D) bson.D {
	ready := slices.Clone(filter)
	for i, e := range ready {
		list, isList := e.Value.(bson.A)
		fields, isDoc := e.Value.(bson.D)
		switch {
		case isDoc:
			ready[i].Value = prepared(fields)
		case isList && (e.Key == "$in" || e.Key == "$nin"):
			set := make(valueSet, len(list))
			for _, v := range list {
				set[keyOf(v)] = true
			}
			ready[i].Value = set
		case isList && (e.Key == "$and" || e.Key == "$or"):
			all := make(bson.A, len(list))
			for n, v := range list {
				inner, _ := v.(bson.D)
				all[n] = prepared(inner)
			}
			ready[i].Value = all
		}
	}
	return ready
}

// matches reports whether a document matches a prepared filter.
func matches(doc, filter bson.D) (bool, error) {
	for _, e := range filter {
		ok, err := matchesField(doc, e)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func matchesField(doc bson.D, e bson.E) (bool, error) {
	switch {
	case e.Key == "$and" || e.Key == "$or":
		list, _ := e.Value.(bson.A)
		return matchesList(doc, list, e.Key == "$and")
	case strings.HasPrefix(e.Key, "$"):
		return false, unknown("query operator", e.Key)
	}
	value, exists := lookup(doc, e.Key)
	if _, isArray := value.(bson.A); isArray {
		return false, unknown("query of an array", e.Key)
	}
	conditions, ok := e.Value.(bson.D)
	if !ok || len(conditions) == 0 || !strings.HasPrefix(conditions[0].Key, "$") {
		conditions = bson.D{{Key: "$eq", Value: e.Value}}
	}
	for _, c := range conditions {
		ok, err := holds(value, exists, c, conditions)
		if err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// matchesList reports whether all filters of a list match, or any.
func matchesList(doc bson.D, list bson.A, all bool) (bool, error) {
	for _, item := range list {
		filter, _ := item.(bson.D)
		ok, err := matches(doc, filter)
		if err != nil || ok != all {
			return ok, err
		}
	}
	return all, nil
}

// holds reports whether one condition on a field holds.
func holds(value any, exists bool, c bson.E, all bson.D) (bool, error) {
	sameType := rank(value) == rank(c.Value)
	switch c.Key {
	case "$eq":
		return compare(value, c.Value) == 0, nil
	case "$ne":
		return compare(value, c.Value) != 0, nil
	case "$gt":
		return sameType && compare(value, c.Value) > 0, nil
	case "$gte":
		return sameType && compare(value, c.Value) >= 0, nil
	case "$lt":
		return sameType && compare(value, c.Value) < 0, nil
	case "$lte":
		return sameType && compare(value, c.Value) <= 0, nil
	case "$in":
		return c.Value.(valueSet)[keyOf(value)], nil
	case "$nin":
		return !c.Value.(valueSet)[keyOf(value)], nil
	case "$exists":
		return exists == truth(c.Value), nil
	case "$regex":
		return matchesPattern(value, c.Value, option[string](all, "$options"))
	case "$options":
		return true, nil
	}
	return false, unknown("query operator", c.Key)
}

func matchesPattern(value, pattern any, options string) (bool, error) {
	text, ok := pattern.(string)
	if !ok || options != "" && options != "i" {
		return false, unknown("kind of pattern", options)
	}
	if options != "" {
		text = "(?" + options + ")" + text
	}
	expr, err := regexp.Compile(text)
	if err != nil {
		return false, bad("pattern: %v", err)
	}
	s, isText := value.(string)
	return isText && expr.MatchString(s), nil
}

// equalities returns a document with the values that a filter requires fields to equal.
func equalities(filter bson.D) bson.D {
	var doc bson.D
	for _, e := range filter {
		conditions, isDoc := e.Value.(bson.D)
		operators := isDoc && len(conditions) > 0 && strings.HasPrefix(conditions[0].Key, "$")
		switch {
		case e.Key == "$and":
			for _, item := range option[bson.A](filter, "$and") {
				inner, _ := item.(bson.D)
				doc = append(doc, equalities(inner)...)
			}
		case !operators && !strings.HasPrefix(e.Key, "$"):
			doc = with(doc, e.Key, e.Value)
		}
	}
	return doc
}

// candidates returns the entries that can match a filter: those of its _ids if it names them,
// those of an index if it names the value of its first field, else all.
func (c *collection) candidates(filter bson.D) []*entry {
	if ids, ok := idsIn(filter); ok {
		named := make(map[*entry]bool)
		for _, id := range ids {
			if e, ok := c.entries[keyOf(id)]; ok {
				named[e] = true
			}
		}
		return slices.Collect(maps.Keys(named))
	}
	equal := equalities(filter)
	for _, x := range c.indexes {
		if v, ok := lookup(equal, x.fields[0]); ok {
			return slices.Collect(maps.Keys(x.holders[keyOf(v)]))
		}
	}
	return slices.Collect(maps.Values(c.entries))
}

// idsIn returns the _ids that a filter names, and false if it does not say which.
func idsIn(filter bson.D) (bson.A, bool) {
	id, ok := lookup(filter, "_id")
	conditions, isDoc := id.(bson.D)
	if !isDoc || len(conditions) == 0 || !strings.HasPrefix(conditions[0].Key, "$") {
		return bson.A{id}, ok
	}
	list, isList := conditions[0].Value.(bson.A)
	return list, isList && conditions[0].Key == "$in"
}

// query returns the entries whose documents match, as t sees them.
func (c *collection) query(t *transaction, filter, sort bson.D, skip, limit int) ([]*entry, error) {
	var found []*entry
	ready := prepared(filter)
	for _, e := range c.candidates(filter) {
		doc := e.read(t)
		if doc == nil {
			continue
		}
		ok, err := matches(doc, ready)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *entry) int {
		return cmp.Or(compareBy(sort, a.read(t), b.read(t)), cmp.Compare(a.number, b.number)) // which is the natural order
	})
	found = found[min(skip, len(found)):]
	if limit > 0 {
		found = found[:min(limit, len(found))]
	}
	return found, nil
}

// compareBy orders documents by the fields of a sort.
func compareBy(sort, a, b bson.D) int {
	for _, by := range sort {
		x, _ := lookup(a, by.Key)
		y, _ := lookup(b, by.Key)
		direction, _ := number(by.Value)
		if c := compare(x, y); c != 0 {
			return c * int(direction)
		}
	}
	return 0
}
