package mongofake

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// change is one statement of an update command, or of findAndModify.
type change struct {
	filter, sort bson.D
	update       any
	multi        bool
	upsert       bool
	remove       bool
}

// changed is what a change has done.
type changed struct {
	matched, modified int
	before, after     bson.D // of the last document; after is nil if it was removed
	upserted          any    // the _id of the new document
}

func (c *collection) change(t *transaction, ch change) (changed, error) {
	limit := 1
	if ch.multi {
		limit = 0
	}
	found, err := c.query(t, ch.filter, ch.sort, 0, limit)
	if err != nil {
		return changed{}, err
	}
	if len(found) == 0 && ch.upsert {
		return c.upsert(t, ch)
	}
	done := changed{matched: len(found)}
	for _, e := range found {
		done.before, done.after = e.read(t), nil
		if !ch.remove {
			if done.after, err = updated(done.before, ch.update, false); err != nil {
				return changed{}, err
			}
		}
		if done.after != nil && compare(done.before, done.after) == 0 {
			continue
		}
		if err := t.put(e, done.after); err != nil {
			return changed{}, err
		}
		done.modified++
	}
	return done, nil
}

func (c *collection) upsert(t *transaction, ch change) (changed, error) {
	doc, err := updated(equalities(ch.filter), ch.update, true)
	if err != nil {
		return changed{}, err
	}
	if _, ok := lookup(doc, "_id"); !ok {
		doc = append(bson.D{{Key: "_id", Value: bson.NewObjectID()}}, doc...)
	}
	id, _ := lookup(doc, "_id")
	return changed{after: doc, upserted: id}, c.insert(t, doc)
}

func (c *collection) insert(t *transaction, doc bson.D) error {
	id, ok := lookup(doc, "_id")
	if !ok {
		return bad("a document without _id; drivers send one")
	}
	e := c.find(id)
	if e.writer == t && e.pending != nil || e.writer == nil && e.last().doc != nil && e.last().commit <= t.snapshot {
		return duplicateKey(c.namespace, "_id_")
	}
	return t.put(e, doc)
}

// updated returns what an update makes of a document: operators, a pipeline, or another
// document in its place.
func updated(doc bson.D, update any, inserts bool) (bson.D, error) {
	if pipeline, ok := update.(bson.A); ok {
		return runPipeline(doc, pipeline)
	}
	operators, _ := update.(bson.D)
	if len(operators) == 0 || !strings.HasPrefix(operators[0].Key, "$") {
		id, _ := lookup(doc, "_id")
		if _, own := lookup(operators, "_id"); own || id == nil {
			return operators, nil
		}
		return append(bson.D{{Key: "_id", Value: id}}, operators...), nil
	}
	for _, op := range operators {
		fields, _ := op.Value.(bson.D)
		for _, f := range fields {
			var err error
			if doc, err = applyOperator(doc, op.Key, f, inserts); err != nil {
				return nil, err
			}
		}
	}
	return doc, nil
}

func applyOperator(doc bson.D, name string, f bson.E, inserts bool) (bson.D, error) {
	switch name {
	case "$set":
		return with(doc, f.Key, f.Value), nil
	case "$setOnInsert":
		if inserts {
			return with(doc, f.Key, f.Value), nil
		}
		return doc, nil
	case "$unset":
		return without(doc, f.Key), nil
	case "$inc":
		old, ok := lookup(doc, f.Key)
		if !ok {
			return with(doc, f.Key, f.Value), nil
		}
		sum, err := add(old, f.Value)
		return with(doc, f.Key, sum), err
	}
	return nil, unknown("update operator", name)
}

func runPipeline(doc bson.D, stages bson.A) (bson.D, error) {
	for _, item := range stages {
		stage, _ := item.(bson.D)
		if len(stage) != 1 || stage[0].Key != "$replaceWith" {
			return nil, unknown("stage of an update", keyOf(stage))
		}
		v, err := scopeOf(doc).eval(stage[0].Value)
		if err != nil {
			return nil, err
		}
		replaced, ok := v.(bson.D)
		if !ok {
			return nil, bad("$replaceWith needs a document, not %T", v)
		}
		doc = replaced
	}
	return doc, nil
}

// project returns what a projection leaves of a document: the fields that it names with 1 or
// true, those that it computes, and the _id unless it says otherwise.
func project(doc, projection bson.D) (bson.D, error) {
	if len(projection) == 0 || doc == nil {
		return doc, nil
	}
	if !slices.ContainsFunc(projection, func(p bson.E) bool { return truth(p.Value) }) {
		for _, p := range projection {
			doc = without(doc, p.Key)
		}
		return doc, nil
	}
	kept := bson.D{}
	id, wanted := lookup(projection, "_id")
	if v, ok := lookup(doc, "_id"); ok && (!wanted || truth(id)) {
		kept = append(kept, bson.E{Key: "_id", Value: v})
	}
	for _, p := range projection {
		n, isNumber := number(p.Value)
		switch {
		case p.Key == "_id":
			continue
		case p.Value == false || isNumber && n == 0:
			return nil, unknown("projection without", p.Key)
		case p.Value == true || isNumber:
			if v, ok := lookup(doc, p.Key); ok {
				kept = with(kept, p.Key, v)
			}
		default:
			v, err := scopeOf(doc).eval(p.Value)
			if err != nil {
				return nil, err
			}
			if v != (missing{}) {
				kept = with(kept, p.Key, v)
			}
		}
	}
	return kept, nil
}
