package mongofake

import (
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// commandError is an error that clients see.
type commandError struct {
	code   int32
	name   string
	text   string
	labels bson.A
}

const transient = "TransientTransactionError"

var (
	errWriteConflict = &commandError{112, "WriteConflict", "another transaction has written this document", bson.A{transient}}
	errNoTransaction = &commandError{251, "NoSuchTransaction", "the transaction is not in progress", bson.A{transient}}
	errShutdown      = &commandError{91, "ShutdownInProgress", "the server is closing", nil}
)

func (e *commandError) Error() string { return e.name + ": " + e.text }

func (e *commandError) document() bson.D {
	doc := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: e.code}, {Key: "codeName", Value: e.name}, {Key: "errmsg", Value: e.text}}
	if e.labels != nil {
		doc = append(doc, bson.E{Key: "errorLabels", Value: e.labels})
	}
	return doc
}

func asCommandError(err error) *commandError {
	var e *commandError
	if errors.As(err, &e) {
		return e
	}
	return &commandError{code: 2, name: "BadValue", text: err.Error()}
}

// unknown refuses what the server does not support.
func unknown(what, name string) error {
	return &commandError{code: 238, name: "NotImplemented", text: fmt.Sprintf("mongofake does not know the %s %q", what, name)}
}

func unauthorized(command string) error {
	return &commandError{code: 13, name: "Unauthorized", text: "not authorized to execute command " + command}
}

func bad(format string, args ...any) error {
	return &commandError{code: 2, name: "BadValue", text: fmt.Sprintf(format, args...)}
}

func duplicateKey(namespace, index string) error {
	return &commandError{code: 11000, name: "DuplicateKey", text: fmt.Sprintf("E11000 duplicate key error collection: %s index: %s", namespace, index)}
}
