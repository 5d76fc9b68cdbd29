package interleave

import "encoding/binary"

// PostgreSQL is the protocol of PostgreSQL: a step is a request that runs something, by the simple or
// the extended query protocol.
func PostgreSQL(request []byte) bool {
	for len(request) >= 5 {
		switch request[0] {
		case 'Q', 'E':
			return true
		}
		size := 1 + int(binary.BigEndian.Uint32(request[1:]))
		if size < 5 || size > len(request) {
			return false
		}
		request = request[size:]
	}
	return false
}
