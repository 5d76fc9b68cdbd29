package sbfake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The descriptors of AMQP's frames and of the types within them.
const (
	codeOpen, codeBegin, codeAttach, codeFlow, codeTransfer  = 0x10, 0x11, 0x12, 0x13, 0x14
	codeDisposition, codeDetach, codeEnd, codeClose          = 0x15, 0x16, 0x17, 0x18
	codeError                                                = 0x1d
	stateAccepted, stateRejected, stateReleased, stateModify = 0x24, 0x25, 0x26, 0x27
	typeSource, typeTarget                                   = 0x28, 0x29
	saslMechanisms, saslInit, saslOutcome                    = 0x40, 0x41, 0x44
)

const (
	amqpFrame = 0
	saslFrame = 1

	// maxFrame is the largest frame that is read.
	maxFrame = 16 << 20

	// maxBody is how much of a message is written into one frame.
	maxBody = 60_000
)

var errFrame = errors.New("sbfake: a frame header makes no sense")

// frame is one frame as it was read. An empty one, which keeps a connection alive, has code 0.
type frame struct {
	channel uint16
	code    uint64
	fields  list
	body    []byte
}

func readFrame(r io.Reader) (frame, error) {
	var header [8]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	size, offset := binary.BigEndian.Uint32(header[:4]), uint32(header[4])*4
	if offset < 8 || size < offset || size > maxFrame {
		return frame{}, errFrame
	}
	buf := make([]byte, size-8)
	if _, err := io.ReadFull(r, buf); err != nil {
		return frame{}, err
	}
	f := frame{channel: binary.BigEndian.Uint16(header[6:])}
	d := &decoder{b: buf[offset-8:]}
	if len(d.b) == 0 {
		return f, nil
	}
	performative, _ := d.value().(described)
	f.code, f.fields, f.body = performative.code, as[list](performative.value), d.b
	return f, d.err
}

// newFrame returns a frame as it goes on the wire.
func newFrame(kind byte, channel uint16, code uint64, fields list, body []byte) ([]byte, error) {
	b, err := encode(make([]byte, 8, 128+len(body)), described{code, fields})
	if err != nil {
		return nil, fmt.Errorf("encode frame %#x: %w", code, err)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)))
	b[4], b[5] = 2, kind
	binary.BigEndian.PutUint16(b[6:], channel)
	return b, nil
}

// failure returns AMQP's error type.
func failure(condition, description string) described {
	return described{codeError, list{symbol(condition), description}}
}
