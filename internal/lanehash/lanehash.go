// Package lanehash computes the lane of a message.
package lanehash

import (
	"crypto/sha256"

	"github.com/waybill-go/waybill"
)

// Count is the number of lanes of a store whose relays share them.
const Count = 64

// Of returns the lane of a message: the first byte of SHA-256 of its key, or of its id if it has none, modulo
// [Count]. It is frozen: the function lane in PostgreSQL computes the same.
func Of(m *waybill.Message) int {
	key := m.Key
	if key == "" {
		key = m.ID
	}
	sum := sha256.Sum256([]byte(key))
	return int(sum[0]) % Count
}
