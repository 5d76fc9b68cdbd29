package mongostore

import (
	"context"
	"errors"
	"strconv"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/guarantee"
)

// Explain returns what commits survive, as the live server has it. Any user may see the members of
// a replica set; what its configuration says of the journal is hidden from a user who may not run
// replSetGetConfig.
func (s *Store) Explain(ctx context.Context) ([]guarantee.Fact, error) {
	var d deployment
	if err := s.db.RunCommand(outside(ctx), bson.D{{Key: "hello", Value: 1}}).Decode(&d); err != nil {
		return nil, wrap("ask for the members of the replica set", err)
	}
	var reply struct {
		Config struct {
			Journaled *bool `bson:"writeConcernMajorityJournalDefault"`
		} `bson:"config"`
	}
	admin := s.db.Client().Database("admin")
	err := admin.RunCommand(outside(ctx), bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&reply)
	if err != nil && !isRefusal(err) {
		return nil, wrap("read the replica set's configuration", err)
	}
	return d.facts(reply.Config.Journaled), nil
}

// isRefusal reports whether a server has understood a question and does not answer it: to this
// user, or because it is a router.
func isRefusal(err error) bool {
	var command mongo.CommandError
	return errors.As(err, &command) && !isOutage(err)
}

// deployment is what a server says of those that it belongs to.
type deployment struct {
	Set      string   `bson:"setName"`
	Hosts    []string `bson:"hosts"`
	Passives []string `bson:"passives"` // they hold data too, and are never elected
	Message  string   `bson:"msg"`
}

// router is what mongos calls itself.
const router = "isdbgrid"

// facts returns what commits survive. journaled is nil if the server does not tell.
func (d deployment) facts(journaled *bool) []guarantee.Fact {
	members := guarantee.Fact{About: guarantee.Durability, Setting: "members", Value: strconv.Itoa(len(d.Hosts) + len(d.Passives)), Survives: guarantee.NodeLoss,
		Means: "a commit is on a majority of the members of " + d.Set}
	switch {
	case d.Message == router:
		members.Value, members.Survives = "", guarantee.Unknown
		members.Means = "the router of a sharded cluster does not tell of how many members its shards are"
	case d.Set == "":
		members.Value, members.Survives = "none", guarantee.PowerLoss
		members.Means, members.Stronger = "a server alone has no transactions, which this store needs", "a replica set of three members"
	case len(d.Hosts)+len(d.Passives) < 2:
		members.Survives, members.Means = guarantee.PowerLoss, "a commit is on one machine"
		members.Stronger = "a replica set of three members"
	}
	return []guarantee.Fact{
		{About: guarantee.Durability, Setting: "writeConcern", Value: "majority", Survives: guarantee.NodeLoss,
			Means: "the store waits for a majority, whatever the client is set to; a transaction that you begin yourself has your write concern"},
		members, journalFact(journaled),
	}
}

// journalFact says what a majority does with a write before it counts as stored.
func journalFact(journaled *bool) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "writeConcernMajorityJournalDefault",
		Means: "true, unless it was changed: a majority has a commit on disk before it is confirmed"}
	switch {
	case journaled == nil:
	case *journaled:
		f.Value, f.Survives, f.Means = "true", guarantee.NodeLoss, "a majority has a commit on disk before it is confirmed"
	default:
		f.Value, f.Survives, f.Stronger = "false", guarantee.ProcessCrash, "writeConcernMajorityJournalDefault: true"
		f.Means = "members that lose their power together lose the commits that none had in its journal"
	}
	return f
}
