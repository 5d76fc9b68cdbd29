package mongostore

import (
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/waybill-go/waybill"
)

const defaultPrefix = "waybill_"

// maxPrefixLen keeps names below MongoDB's limit.
const maxPrefixLen = 64

// Config configures a store. The zero value stands for the defaults.
type Config struct {
	// CollectionPrefix begins the names of all collections. At most 64 bytes, without '$' and
	// NUL, and not "system.". Optional; the default is "waybill_".
	CollectionPrefix string

	// ClockOffset is added to the server's clock whenever the store asks for the time. It must
	// be safe for concurrent use. Optional; tests let time pass with it.
	ClockOffset func() time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.CollectionPrefix == "" {
		c.CollectionPrefix = defaultPrefix
	}
	if c.ClockOffset == nil {
		c.ClockOffset = func() time.Duration { return 0 }
	}
	return c, c.validate()
}

func (c *Config) validate() error {
	p := c.CollectionPrefix
	switch {
	case len(p) > maxPrefixLen:
		return invalid("CollectionPrefix", "has %d bytes, the limit is %d", len(p), maxPrefixLen)
	case strings.ContainsAny(p, "$\x00"):
		return invalid("CollectionPrefix", "is %q; it must not contain '$' or NUL", p)
	case strings.HasPrefix(p, "system.") || strings.HasPrefix(p, "."):
		return invalid("CollectionPrefix", "is %q; MongoDB keeps such names for itself", p)
	}
	return nil
}

func invalid(field, format string, args ...any) error {
	return &waybill.InvalidError{Field: "mongostore.Config." + field, Reason: fmt.Sprintf(format, args...)}
}

// collection returns a collection that is read from the primary and whose writes survive its
// loss, whatever the client's own settings are.
func (c *Config) collection(db *mongo.Database, name string) *mongo.Collection {
	return db.Collection(c.CollectionPrefix+name, options.Collection().SetBSONOptions(&options.BSONOptions{UseJSONStructTags: true}).
		SetReadPreference(readpref.Primary()).SetReadConcern(readconcern.Majority()).SetWriteConcern(writeconcern.Majority()))
}

// now is an expression: the server's clock.
func (c *Config) now() any { return c.later(0) }

// later is an expression: the time after d.
func (c *Config) later(d time.Duration) any {
	return bson.D{{Key: "$add", Value: bson.A{"$$NOW", (c.ClockOffset() + d).Milliseconds()}}}
}
