package interleave

import "encoding/binary"

// Commands of the MySQL protocol that run something.
const (
	mysqlQuery   = 0x03
	mysqlExecute = 0x17
)

// MySQL is the protocol of MariaDB and MySQL: a step is a query, or a prepared statement that is executed.
func MySQL(request []byte) bool {
	const first = 4 // after the packet's length and number
	return len(request) > first && request[first-1] == 0 && (request[first] == mysqlQuery || request[first] == mysqlExecute)
}

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
