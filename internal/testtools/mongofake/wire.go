package mongofake

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Kinds of messages. Only a client's first one may be a query.
const (
	opReply = 1
	opQuery = 2004
	opMsg   = 2013
)

const (
	headerLen     = 16
	maxMessageLen = 48_000_000

	flagChecksum   = 1 << 0
	flagMoreToCome = 1 << 1 // no reply is wanted
)

var errFrame = errors.New("mongofake: not a message of the protocol")

// request is a command as it came.
type request struct {
	id      uint32
	op      uint32
	body    bson.D
	noReply bool
}

func readRequest(r io.Reader) (request, error) {
	var header [headerLen]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return request{}, err
	}
	length := binary.LittleEndian.Uint32(header[0:])
	req := request{id: binary.LittleEndian.Uint32(header[4:]), op: binary.LittleEndian.Uint32(header[12:])}
	if length < headerLen || length > maxMessageLen {
		return request{}, errFrame
	}
	data := make([]byte, length-headerLen)
	if _, err := io.ReadFull(r, data); err != nil {
		return request{}, err
	}
	switch req.op {
	case opQuery:
		return req, req.parseQuery(data)
	case opMsg:
		return req, req.parseMsg(data)
	}
	return request{}, fmt.Errorf("%w: kind %d", errFrame, req.op)
}

// parseQuery reads flags, the name of a collection, two numbers, and the command.
func (req *request) parseQuery(data []byte) error {
	end := bytes.IndexByte(data[min(4, len(data)):], 0)
	if end < 0 || len(data) < 4+end+1+8 {
		return errFrame
	}
	return bson.Unmarshal(data[4+end+1+8:], &req.body)
}

// parseMsg reads flags and sections: the command, and lists that belong into it.
func (req *request) parseMsg(data []byte) error {
	if len(data) < 4 {
		return errFrame
	}
	flags := binary.LittleEndian.Uint32(data)
	data = data[4:]
	req.noReply = flags&flagMoreToCome != 0
	if flags&flagChecksum != 0 && len(data) >= 4 {
		data = data[:len(data)-4]
	}
	var lists bson.D
	for len(data) > 0 {
		kind := data[0]
		section, rest, err := cutSized(data[1:])
		if err != nil {
			return err
		}
		data = rest
		switch kind {
		case 0:
			err = bson.Unmarshal(section, &req.body)
		case 1:
			lists, err = appendList(lists, section[4:])
		default:
			err = errFrame
		}
		if err != nil {
			return err
		}
	}
	req.body = append(req.body, lists...)
	return nil
}

// cutSized cuts off what begins with its own length.
func cutSized(data []byte) (first, rest []byte, err error) {
	if len(data) < 4 {
		return nil, nil, errFrame
	}
	n := int(binary.LittleEndian.Uint32(data))
	if n < 4 || n > len(data) {
		return nil, nil, errFrame
	}
	return data[:n], data[n:], nil
}

// appendList reads a name and documents.
func appendList(lists bson.D, section []byte) (bson.D, error) {
	name, data, ok := bytes.Cut(section, []byte{0})
	if !ok {
		return nil, errFrame
	}
	var docs bson.A
	for len(data) > 0 {
		raw, rest, err := cutSized(data)
		if err != nil {
			return nil, err
		}
		var doc bson.D
		if err := bson.Unmarshal(raw, &doc); err != nil {
			return nil, err
		}
		docs, data = append(docs, doc), rest
	}
	return append(lists, bson.E{Key: string(name), Value: docs}), nil
}

// reply writes the answer in the kind of message that the request came in.
func (req *request) reply(w io.Writer, doc bson.D) error {
	body, err := bson.Marshal(doc)
	if err != nil {
		return err
	}
	op, before := uint32(opMsg), make([]byte, 4+1) // no flags; a section with the document
	if req.op == opQuery {
		op, before = opReply, make([]byte, 4+8+4+4) // flags, cursor, where it starts, how many
		before[16] = 1
	}
	out := make([]byte, 0, headerLen+len(before)+len(body))
	for _, n := range []uint32{uint32(cap(out)), 0, req.id, op} {
		out = binary.LittleEndian.AppendUint32(out, n)
	}
	_, err = w.Write(append(append(out, before...), body...))
	return err
}
