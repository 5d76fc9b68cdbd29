package redisstore

import (
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/waybill-go/waybill"
)

var errDamaged = errors.New("redisstore: fields of the key are missing; somebody else has changed it")

// classify gives an error of the client its kind. What the client and the server report is a
// connection, a role, memory, a login or a setting, and never the one key that was asked for. Only
// a key of the wrong type, which another program has made, is about that key.
func classify(err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return err
	}
	return waybill.UnavailableError(err)
}
