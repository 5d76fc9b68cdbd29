package mongofake

import (
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// session is what the server keeps of a client's session: its transaction, or its last retryable
// write with the answer.
type session struct {
	number    int64
	open      *transaction
	committed bool // the transaction with the number
	answer    bson.D
}

// run runs a command in its session, if it has one.
func (s *Server) run(body bson.D) (bson.D, error) {
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	name, number := nameOf(body), option[int64](body, "txnNumber")
	_, inTransaction := lookup(body, "autocommit")
	if number == 0 {
		return s.exec(name, body, nil)
	}
	ss := s.session(body)
	if inTransaction {
		return s.runInTransaction(ss, name, number, body)
	}
	if ss.number == number && ss.answer != nil {
		return ss.answer, nil
	}
	reply, err := s.exec(name, body, nil)
	if err == nil {
		ss.number, ss.answer = number, reply
	}
	return reply, err
}

func nameOf(body bson.D) string {
	if len(body) == 0 {
		return ""
	}
	return body[0].Key
}

func (s *Server) session(body bson.D) *session {
	id, _ := lookup(body, "lsid")
	key := keyOf(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[key] == nil {
		s.sessions[key] = &session{}
	}
	return s.sessions[key]
}

func (s *Server) runInTransaction(ss *session, name string, number int64, body bson.D) (bson.D, error) {
	starts := option[bool](body, "startTransaction")
	if err := fitsTransaction(name, body, starts); err != nil {
		ss.abort()
		return nil, err
	}
	if starts {
		ss.abort()
		*ss = session{number: number, open: s.db.begin()}
	}
	if ss.number == number && ss.committed && name == "commitTransaction" {
		return bson.D{}, nil // it was lost on the way
	}
	if ss.number != number || ss.open == nil {
		return nil, errNoTransaction
	}
	switch name {
	case "commitTransaction":
		ss.open.commit()
		ss.open, ss.committed = nil, true
		return bson.D{}, nil
	case "abortTransaction":
		ss.abort()
		return bson.D{}, nil
	}
	reply, err := s.exec(name, body, ss.open)
	if _, failed := lookup(reply, "writeErrors"); failed || err != nil {
		ss.abort()
	}
	return reply, err
}

// fitsTransaction refuses what MongoDB refuses in a transaction: some commands, and concerns
// that belong to the transaction as a whole.
func fitsTransaction(name string, body bson.D, starts bool) error {
	ends := name == "commitTransaction" || name == "abortTransaction"
	if _, ok := lookup(body, "writeConcern"); ok && !ends {
		return &commandError{code: 72, name: "InvalidOptions", text: "a write concern belongs to the commit"}
	}
	if _, ok := lookup(body, "readConcern"); ok && !starts {
		return &commandError{code: 72, name: "InvalidOptions", text: "a read concern belongs to the first command"}
	}
	if slices.Contains([]string{"count", "createIndexes", "dropDatabase"}, name) {
		return &commandError{code: 263, name: "OperationNotSupportedInTransaction", text: name}
	}
	return nil
}

func (ss *session) abort() {
	if ss.open != nil {
		ss.open.end()
		ss.open = nil
	}
}
