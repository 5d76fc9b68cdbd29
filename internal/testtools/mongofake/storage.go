package mongofake

import (
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// database holds everything, in versions: each commit has a number, and a transaction reads
// what was there at the number at which it began.
type database struct {
	mu          sync.Mutex
	changed     *sync.Cond // a transaction has ended, or the server
	closed      bool
	commits     int64
	entries     int64 // created so far
	collections map[string]*collection
	open        map[*transaction]bool
}

func newDatabase() *database {
	db := &database{collections: make(map[string]*collection), open: make(map[*transaction]bool)}
	db.changed = sync.NewCond(&db.mu)
	return db
}

func (db *database) close() {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.closed = true
	db.changed.Broadcast()
}

// collection returns a collection, which is created when it is first used.
func (db *database) collection(namespace string) *collection {
	c, ok := db.collections[namespace]
	if !ok {
		c = &collection{db: db, namespace: namespace, entries: make(map[string]*entry)}
		db.collections[namespace] = c
	}
	return c
}

// dropAll forgets the collections of a database by the name.
func (db *database) dropAll(name string) {
	for namespace := range db.collections {
		if strings.HasPrefix(namespace, name+".") {
			delete(db.collections, namespace)
		}
	}
}

type collection struct {
	db        *database
	namespace string
	entries   map[string]*entry // by the key of the _id
	indexes   []*index
}

// index finds entries by the value of its first field: those that have it, or have had it.
type index struct {
	name    string
	fields  []string
	unique  bool
	holders map[string]map[*entry]bool
}

// entry is a document in its versions.
type entry struct {
	in       *collection
	number   int64 // for the natural order
	key      string
	versions []version
	writer   *transaction // that has written it and not ended
	pending  bson.D       // what it has written; nil if it has deleted it
	held     []holding
}

// holding is a place of an entry in an index.
type holding struct {
	index *index
	value string
}

type version struct {
	commit int64
	doc    bson.D // nil if it is deleted
}

// last returns the last version that was committed.
func (e *entry) last() version {
	if len(e.versions) == 0 {
		return version{}
	}
	return e.versions[len(e.versions)-1]
}

// read returns the document as t sees it, nil if there is none.
func (e *entry) read(t *transaction) bson.D {
	if e.writer == t {
		return e.pending
	}
	for _, v := range slices.Backward(e.versions) {
		if v.commit <= t.snapshot {
			return v.doc
		}
	}
	return nil
}

// find returns the entry of an _id, and creates it if it is new.
func (c *collection) find(id any) *entry {
	key := keyOf(id)
	e, ok := c.entries[key]
	if !ok {
		c.db.entries++
		e = &entry{in: c, number: c.db.entries, key: key}
		c.entries[key] = e
	}
	return e
}

// transaction is one of a client's, or that of a single command.
type transaction struct {
	db       *database
	snapshot int64
	wrote    []*entry
}

func (db *database) begin() *transaction {
	t := &transaction{db: db, snapshot: db.commits}
	db.open[t] = true
	return t
}

// put writes a document, nil to delete it. The error is a write conflict or a duplicate key.
func (t *transaction) put(e *entry, doc bson.D) error {
	if e.writer != nil && e.writer != t || e.last().commit > t.snapshot {
		return errWriteConflict
	}
	if doc != nil {
		for _, x := range e.in.indexes {
			if err := x.check(t, e, doc); err != nil {
				return err
			}
			x.add(e, doc)
		}
	}
	if e.writer == nil {
		e.writer = t
		t.wrote = append(t.wrote, e)
	}
	e.pending = doc
	return nil
}

// check looks for another document with the same key, if there must be none.
func (x *index) check(t *transaction, own *entry, doc bson.D) error {
	if !x.unique {
		return nil
	}
	key := x.keyOf(doc)
	for e := range x.holders[x.first(doc)] {
		committed := e.last().doc != nil && x.keyOf(e.last().doc) == key
		written := e.writer != nil && e.pending != nil && x.keyOf(e.pending) == key
		switch {
		case e == own || !committed && !written:
		case e.writer != nil && e.writer != t, e.writer == nil && e.last().commit > t.snapshot:
			return errWriteConflict
		case e.writer == nil || written:
			return duplicateKey(e.in.namespace, x.name)
		}
	}
	return nil
}

func (x *index) add(e *entry, doc bson.D) {
	value := x.first(doc)
	if x.holders[value] == nil {
		x.holders[value] = make(map[*entry]bool)
	}
	if !x.holders[value][e] {
		x.holders[value][e] = true
		e.held = append(e.held, holding{x, value})
	}
}

func (x *index) first(doc bson.D) string {
	v, _ := lookup(doc, x.fields[0])
	return keyOf(v)
}

func (x *index) keyOf(doc bson.D) string {
	values := make(bson.A, len(x.fields))
	for i, f := range x.fields {
		values[i], _ = lookup(doc, f)
	}
	return keyOf(values)
}

func (t *transaction) commit() {
	if len(t.wrote) > 0 {
		t.db.commits++
	}
	for _, e := range t.wrote {
		e.versions = append(e.versions, version{t.db.commits, e.pending})
	}
	t.end()
}

func (t *transaction) end() {
	delete(t.db.open, t)
	for _, e := range t.wrote {
		e.writer, e.pending = nil, nil
		t.db.clean(e)
	}
	t.wrote = nil
	t.db.changed.Broadcast()
}

// clean forgets the versions that no transaction can read any more.
func (db *database) clean(e *entry) {
	oldest := db.commits
	for t := range db.open {
		oldest = min(oldest, t.snapshot)
	}
	for len(e.versions) > 1 && e.versions[1].commit <= oldest {
		e.versions = e.versions[1:]
	}
	if e.last().doc == nil && e.last().commit <= oldest {
		delete(e.in.entries, e.key)
		for _, h := range e.held {
			delete(h.index.holders[h.value], e)
		}
	}
}

// alone runs a command that belongs to no transaction, in one of its own. If it clashes with
// a transaction it waits for that one to end and runs again.
func (db *database) alone(run func(t *transaction) error) error {
	for !db.closed {
		t := db.begin()
		err := run(t)
		if err == nil {
			t.commit()
			return nil
		}
		t.end()
		if err != errWriteConflict {
			return err
		}
		db.changed.Wait()
	}
	return errShutdown
}
