package mongofake

import (
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

const setName = "rs0"

// common are options that every command may have and that have no effect here: there is one server,
// and what it has committed is not lost.
var common = []string{
	"$db", "lsid", "txnNumber", "autocommit", "startTransaction", "$clusterTime", "$readPreference",
	"readConcern", "writeConcern", "maxTimeMS", "ordered",
}

// commands are those that the server supports, with their supported options.
var commands = map[string]struct {
	options []string
	run     func(s *Server, c *collection, body bson.D, t *transaction) (bson.D, error)
}{
	"insert":        {[]string{"documents"}, (*Server).insert},
	"update":        {[]string{"updates"}, (*Server).update},
	"delete":        {[]string{"deletes"}, (*Server).delete},
	"findAndModify": {[]string{"query", "sort", "update", "remove", "new", "upsert", "fields"}, (*Server).findAndModify},
	"find":          {[]string{"filter", "sort", "skip", "limit", "projection", "singleBatch", "batchSize"}, (*Server).find},
	"aggregate":     {[]string{"pipeline", "cursor"}, (*Server).aggregate},
	"createIndexes": {[]string{"indexes"}, (*Server).createIndexes},
	"dropIndexes":   {[]string{"index"}, (*Server).dropIndexes},
	"count":         {nil, (*Server).count},
	"dropDatabase":  {nil, (*Server).dropDatabase},
}

// exec runs a command in t, or in a transaction of its own if t is nil.
func (s *Server) exec(name string, body bson.D, t *transaction) (bson.D, error) {
	if s.forbidden(name) {
		return nil, unauthorized(name)
	}
	switch name {
	case "hello", "isMaster", "ismaster":
		return s.hello(), nil
	case "buildInfo":
		return bson.D{{Key: "version", Value: "7.0.0"}}, nil
	case "ping", "endSessions":
		return bson.D{}, nil
	case "replSetGetConfig":
		return s.config(), nil
	}
	cmd, ok := commands[name]
	if !ok {
		return nil, unknown("command", name)
	}
	if err := knows(body[1:], name, cmd.options); err != nil {
		return nil, err
	}
	target, _ := body[0].Value.(string)
	c := s.db.collection(option[string](body, "$db") + "." + target)
	return cmd.run(s, c, body, t)
}

// knows refuses options that a command does not support.
func knows(doc bson.D, of string, options []string) error {
	for _, e := range doc {
		if !slices.Contains(options, e.Key) && !slices.Contains(common, e.Key) {
			return unknown("option of "+of, e.Key)
		}
	}
	return nil
}

// in runs fn in t, or, if that is nil, in a transaction of its own.
func (s *Server) in(t *transaction, fn func(t *transaction) error) error {
	if t != nil {
		return fn(t)
	}
	return s.db.alone(fn)
}

func (s *Server) hello() bson.D {
	return bson.D{
		{Key: "helloOk", Value: true}, {Key: "isWritablePrimary", Value: true}, {Key: "ismaster", Value: true}, {Key: "secondary", Value: false},
		{Key: "setName", Value: setName}, {Key: "setVersion", Value: int32(1)}, {Key: "hosts", Value: bson.A{s.addr()}}, {Key: "me", Value: s.addr()},
		{Key: "primary", Value: s.addr()}, {Key: "localTime", Value: bson.NewDateTimeFromTime(time.Now())},
		{Key: "maxBsonObjectSize", Value: int32(16 << 20)}, {Key: "maxMessageSizeBytes", Value: int32(maxMessageLen)},
		{Key: "maxWriteBatchSize", Value: int32(100_000)}, {Key: "logicalSessionTimeoutMinutes", Value: int32(30)},
		{Key: "minWireVersion", Value: int32(0)}, {Key: "maxWireVersion", Value: int32(21)}, {Key: "readOnly", Value: false},
	}
}

// config is the configuration of a replica set of one, as far as clients ask for it.
func (s *Server) config() bson.D {
	return bson.D{{Key: "config", Value: bson.D{
		{Key: "_id", Value: setName}, {Key: "version", Value: int32(1)}, {Key: "writeConcernMajorityJournalDefault", Value: true},
		{Key: "members", Value: bson.A{bson.D{{Key: "_id", Value: int32(0)}, {Key: "host", Value: s.addr()}}}},
	}}}
}

// each runs the statements of a write command one by one. A duplicate key is reported together with
// the results of the others; the remaining statements are skipped if they are ordered.
func (s *Server) each(body bson.D, list string, t *transaction, run func(t *transaction, i int, st bson.D) error) (bson.D, error) {
	_, given := lookup(body, "ordered")
	ordered := !given || option[bool](body, "ordered")
	var failed bson.A
	for i, item := range option[bson.A](body, list) {
		st, _ := item.(bson.D)
		err := s.in(t, func(t *transaction) error { return run(t, i, st) })
		if err == nil {
			continue
		}
		e := asCommandError(err)
		if e.code != 11000 {
			return nil, e
		}
		failed = append(failed, bson.D{{Key: "index", Value: int32(i)}, {Key: "code", Value: e.code}, {Key: "errmsg", Value: e.text}})
		if ordered || t != nil {
			break
		}
	}
	if failed == nil {
		return bson.D{}, nil
	}
	return bson.D{{Key: "writeErrors", Value: failed}}, nil
}

func (s *Server) insert(c *collection, body bson.D, t *transaction) (bson.D, error) {
	n := int32(0)
	reply, err := s.each(body, "documents", t, func(t *transaction, _ int, doc bson.D) error {
		err := c.insert(t, doc)
		if err == nil {
			n++
		}
		return err
	})
	return append(reply, bson.E{Key: "n", Value: n}), err
}

func (s *Server) update(c *collection, body bson.D, t *transaction) (bson.D, error) {
	var matched, modified int32
	var upserted bson.A
	reply, err := s.each(body, "updates", t, func(t *transaction, i int, st bson.D) error {
		if err := knows(st, "an update", []string{"q", "u", "multi", "upsert"}); err != nil {
			return err
		}
		u, _ := lookup(st, "u")
		done, err := c.change(t, change{filter: option[bson.D](st, "q"), update: u, multi: option[bool](st, "multi"), upsert: option[bool](st, "upsert")})
		if err != nil {
			return err
		}
		matched, modified = matched+int32(done.matched), modified+int32(done.modified)
		if done.upserted != nil {
			matched++
			upserted = append(upserted, bson.D{{Key: "index", Value: int32(i)}, {Key: "_id", Value: done.upserted}})
		}
		return nil
	})
	reply = append(reply, bson.E{Key: "n", Value: matched}, bson.E{Key: "nModified", Value: modified})
	if upserted != nil {
		reply = append(reply, bson.E{Key: "upserted", Value: upserted})
	}
	return reply, err
}

func (s *Server) delete(c *collection, body bson.D, t *transaction) (bson.D, error) {
	n := int32(0)
	reply, err := s.each(body, "deletes", t, func(t *transaction, _ int, st bson.D) error {
		if err := knows(st, "a delete", []string{"q", "limit"}); err != nil {
			return err
		}
		done, err := c.change(t, change{filter: option[bson.D](st, "q"), multi: count(st, "limit") == 0, remove: true})
		if err == nil {
			n += int32(done.modified)
		}
		return err
	})
	return append(reply, bson.E{Key: "n", Value: n}), err
}

func (s *Server) findAndModify(c *collection, body bson.D, t *transaction) (bson.D, error) {
	u, _ := lookup(body, "update")
	ch := change{
		filter: option[bson.D](body, "query"), sort: option[bson.D](body, "sort"), update: u,
		upsert: option[bool](body, "upsert"), remove: option[bool](body, "remove"),
	}
	var done changed
	err := s.in(t, func(t *transaction) (err error) {
		done, err = c.change(t, ch)
		return err
	})
	if err != nil {
		return nil, err
	}
	doc := done.before
	if option[bool](body, "new") {
		doc = done.after
	}
	if doc, err = project(doc, option[bson.D](body, "fields")); err != nil {
		return nil, err
	}
	var value any // null if there is none
	if doc != nil {
		value = doc
	}
	about := bson.D{{Key: "n", Value: int32(done.matched)}, {Key: "updatedExisting", Value: done.matched > 0}}
	if done.upserted != nil {
		about = bson.D{{Key: "n", Value: int32(1)}, {Key: "updatedExisting", Value: false}, {Key: "upserted", Value: done.upserted}}
	}
	return bson.D{{Key: "lastErrorObject", Value: about}, {Key: "value", Value: value}}, nil
}

// find answers with all documents at once, whatever the size of the batch.
func (s *Server) find(c *collection, body bson.D, t *transaction) (bson.D, error) {
	docs := bson.A{}
	err := s.in(t, func(t *transaction) error {
		found, err := c.query(t, option[bson.D](body, "filter"), option[bson.D](body, "sort"), count(body, "skip"), count(body, "limit"))
		if err != nil {
			return err
		}
		for _, e := range found {
			doc, err := project(e.read(t), option[bson.D](body, "projection"))
			if err != nil {
				return err
			}
			docs = append(docs, doc)
		}
		return nil
	})
	return cursor(c, docs), err
}

func cursor(c *collection, docs bson.A) bson.D {
	return bson.D{{Key: "cursor", Value: bson.D{{Key: "id", Value: int64(0)}, {Key: "ns", Value: c.namespace}, {Key: "firstBatch", Value: docs}}}}
}

// count counts all documents of a collection.
func (s *Server) count(c *collection, _ bson.D, t *transaction) (bson.D, error) {
	n := int32(0)
	err := s.in(t, func(t *transaction) error {
		found, err := c.query(t, nil, nil, 0, 0)
		n = int32(len(found))
		return err
	})
	return bson.D{{Key: "n", Value: n}}, err
}

func (s *Server) createIndexes(c *collection, body bson.D, _ *transaction) (bson.D, error) {
	for _, item := range option[bson.A](body, "indexes") {
		spec, _ := item.(bson.D)
		if err := knows(spec, "an index", []string{"key", "name", "unique", "expireAfterSeconds"}); err != nil {
			return nil, err
		}
		x := &index{name: option[string](spec, "name"), unique: option[bool](spec, "unique"), holders: make(map[string]map[*entry]bool)}
		if slices.ContainsFunc(c.indexes, func(other *index) bool { return other.name == x.name }) {
			continue
		}
		for _, f := range option[bson.D](spec, "key") {
			x.fields = append(x.fields, f.Key)
		}
		for _, e := range c.entries {
			if doc := e.last().doc; doc != nil {
				x.add(e, doc)
			}
		}
		c.indexes = append(c.indexes, x)
	}
	return bson.D{}, nil
}

// dropIndexes drops the index with a name.
func (s *Server) dropIndexes(c *collection, body bson.D, _ *transaction) (bson.D, error) {
	name := option[string](body, "index")
	i := slices.IndexFunc(c.indexes, func(x *index) bool { return x.name == name })
	if i < 0 {
		return nil, &commandError{code: 27, name: "IndexNotFound", text: "index not found with name " + name}
	}
	c.indexes = slices.Delete(c.indexes, i, i+1)
	return bson.D{}, nil
}

func (s *Server) dropDatabase(_ *collection, body bson.D, _ *transaction) (bson.D, error) {
	s.db.dropAll(option[string](body, "$db"))
	return bson.D{}, nil
}
