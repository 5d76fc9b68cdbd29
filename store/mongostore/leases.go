package mongostore

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/waybill-go/waybill/inbox/lease"
)

// Leases is a [lease.BatchStore] over one collection. It needs no transactions, so a
// standalone server serves too.
//
// Each key is a document that is changed by one command: a pipeline decides, by the server's
// clock, and changes nothing if the answer is no. A batch takes two round trips: one that asks
// for every key, and one that reads what became of it. Leases are not part of any transaction,
// also if the caller's context carries one. It is safe for concurrent use.
type Leases struct {
	cfg             Config
	keys, responses *mongo.Collection
}

var _ lease.BatchStore = (*Leases)(nil)

// NewLeases returns the lease store in db. The caller keeps db's client and disconnects it.
// The error is an [*waybill.InvalidError] about cfg.
func NewLeases(db *mongo.Database, cfg Config) (*Leases, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Leases{cfg: cfg, keys: cfg.collection(db, leaseKeys), responses: cfg.collection(db, responseKeys)}, nil
}

// EnsureIndexes creates the index that PurgeLeases reads by, and the one by which the server
// removes expired responses, unless they exist. The other calls need only that of the _id.
func (l *Leases) EnsureIndexes(ctx context.Context) error {
	if _, err := l.keys.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: by("last_seen")}); err != nil {
		return wrap("make the index of the leases", err)
	}
	_, err := l.responses.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: by("expires_at"), Options: options.Index().SetExpireAfterSeconds(0)})
	return wrap("make the index of the responses", err)
}

const leaseKeys = "inbox_leases" // the collection

// expiredKey matches keys that are not leased, do not wait, and were last touched before the limit.
func expiredKey(now, limit time.Time) bson.M {
	return bson.M{
		"last_seen": bson.M{"$lt": limit},
		"$or":       bson.A{bson.M{"until": nil}, bson.M{"until": bson.M{"$lte": now}}},
	}
}

// States of a key.
const (
	leased    = "leased"
	released  = "released"
	processed = "processed"
)

// leaseDoc is a key, with the time at which it was read. Versions that know neither waits nor
// payloads may work on the same keys: they begin a key that waits, and its wait is over; and they
// leave the hash as it is, which the token next to it shows.
type leaseDoc struct {
	Key       string     `bson:"_id"`
	State     string     `bson:"state"`
	Lease     string     `bson:"lease"`
	Owner     string     `bson:"owner"`
	Token     int64      `bson:"token"`
	Attempts  int        `bson:"attempts"`
	FirstSeen time.Time  `bson:"first_seen"`
	LastSeen  time.Time  `bson:"last_seen"`
	Until     *time.Time `bson:"until"` // the end of the lease, or of the wait if it is released
	Hash      string     `bson:"payload_hash"`
	Hashed    int64      `bson:"payload_token"` // of the lease whose request had that hash
	Now       time.Time  `bson:"now"`
}

// shownFields are those of a leaseDoc.
func (l *Leases) shownFields() bson.D {
	stored := only("state", "lease", "owner", "token", "attempts", "first_seen", "last_seen", "until", "payload_hash", "payload_token")
	return append(stored, bson.E{Key: "now", Value: l.cfg.now()})
}

// taken reports whether the key cannot be begun now: it is leased, or it waits.
func (d *leaseDoc) taken() bool { return d.Until != nil && d.Until.After(d.Now) }

// payload returns the hash of the payload of the last lease, "" if that is not known.
func (d *leaseDoc) payload() string {
	if d.Hashed != d.Token {
		return ""
	}
	return d.Hash
}

// begun is the answer to a request with the given id. The key has that id if the request has
// acquired it, now or before.
func (d *leaseDoc) begun(req lease.Request, id string) lease.Answer {
	a := lease.Answer{Status: lease.Exhausted, Attempts: d.Attempts}
	usedUp := req.MaxAttempts > 0 && d.Attempts >= req.MaxAttempts
	switch {
	case d.State == processed:
		a.Status, a.Conflict = lease.Processed, req.Conflicts(d.payload())
	case d.State == leased && d.Lease == id && (d.taken() || !usedUp):
		return d.acquired()
	case d.taken():
		a.Status, a.ExpiresAt, a.Remaining = lease.Busy, d.Until.UTC(), d.Until.Sub(d.Now)
	}
	return a
}

func (d *leaseDoc) acquired() lease.Answer {
	return lease.Answer{
		Status: lease.Acquired, LeaseID: d.Lease, Token: d.Token, Attempts: d.Attempts,
		ExpiresAt: d.Until.UTC(), Remaining: d.Until.Sub(d.Now),
	}
}

// statusOf returns what the key is to the holder of a lease.
func (d *leaseDoc) statusOf(id string) lease.Status {
	switch {
	case d.Lease != id:
		return lease.Lost
	case d.State == processed:
		return lease.Processed
	case d.State == released:
		return lease.Released
	}
	return lease.Acquired
}

// TryBegin implements [lease.Store].
func (l *Leases) TryBegin(ctx context.Context, req lease.Request) (lease.Answer, error) {
	if err := req.Validate(); err != nil {
		return lease.Answer{}, err
	}
	id := req.LeaseID()
	d, err := l.change(ctx, req.Key, l.begin(req, id), true)
	if err != nil {
		return lease.Answer{}, wrap("begin a key", err)
	}
	return d.begun(req, id), nil
}

// RenewLease implements [lease.Store].
func (l *Leases) RenewLease(ctx context.Context, own lease.Lease, ttl time.Duration) (lease.Answer, error) {
	if err := errors.Join(lease.ValidateKey(own.Key), lease.ValidateTTL(ttl)); err != nil {
		return lease.Answer{}, err
	}
	d, err := l.change(ctx, own.Key, l.renew(own.ID, ttl), false)
	if err != nil {
		return lease.Answer{}, wrap("renew a lease", err)
	}
	status := statusIn(d, own.ID)
	if status == lease.Acquired {
		return d.acquired(), nil
	}
	a := lease.Answer{Status: status}
	if status == lease.Processed || status == lease.Released {
		a.Attempts = d.Attempts
	}
	return a, nil
}

// MarkProcessed implements [lease.Store].
func (l *Leases) MarkProcessed(ctx context.Context, own lease.Lease) (lease.Status, error) {
	return l.end(ctx, own, l.mark(own.ID), "mark a key")
}

// ReleaseLease implements [lease.Store].
func (l *Leases) ReleaseLease(ctx context.Context, own lease.Lease, r lease.Release) (lease.Status, error) {
	if err := r.Validate(); err != nil {
		return "", err
	}
	return l.end(ctx, own, l.release(own.ID, r), "release a key")
}

func (l *Leases) end(ctx context.Context, own lease.Lease, update mongo.Pipeline, what string) (lease.Status, error) {
	if err := lease.ValidateKey(own.Key); err != nil {
		return "", err
	}
	d, err := l.change(ctx, own.Key, update, false)
	if err != nil {
		return "", wrap(what, err)
	}
	return statusIn(d, own.ID), nil
}

func statusIn(d *leaseDoc, id string) lease.Status {
	if d == nil {
		return lease.Unknown
	}
	return d.statusOf(id)
}

// change runs a pipeline on a key and returns the key as it is then, nil if there is none.
func (l *Leases) change(ctx context.Context, key string, update mongo.Pipeline, insert bool) (*leaseDoc, error) {
	ctx = outside(ctx)
	opts := options.FindOneAndUpdate().SetReturnDocument(options.After).SetProjection(l.shownFields()).SetUpsert(insert)
	for {
		var d leaseDoc
		err := l.keys.FindOneAndUpdate(ctx, bson.M{"_id": key}, update, opts).Decode(&d)
		switch {
		case err == nil:
			return &d, nil
		case errors.Is(err, mongo.ErrNoDocuments):
			return nil, nil
		case !mongo.IsDuplicateKeyError(err): // somebody else has inserted the key at the same time
			return nil, err
		}
	}
}

// ReadLease implements [lease.Store].
func (l *Leases) ReadLease(ctx context.Context, key string) (lease.Record, error) {
	if err := lease.ValidateKey(key); err != nil {
		return lease.Record{}, err
	}
	var d leaseDoc
	err := l.keys.FindOne(outside(ctx), bson.M{"_id": key}, options.FindOne().SetProjection(l.shownFields())).Decode(&d)
	if errors.Is(err, mongo.ErrNoDocuments) {
		return lease.Record{Status: lease.Unknown}, nil
	}
	if err != nil {
		return lease.Record{}, wrap("read a key", err)
	}
	return d.record(), nil
}

func (d *leaseDoc) record() lease.Record {
	r := lease.Record{
		Status: lease.Released, Owner: d.Owner, Token: d.Token, Attempts: d.Attempts,
		FirstSeen: d.FirstSeen.UTC(), LastSeen: d.LastSeen.UTC(), PayloadHash: d.payload(),
	}
	switch {
	case d.State == processed:
		r.Status = lease.Processed
	case d.State == leased && d.taken():
		r.Status = lease.Busy
	case d.State == leased:
		r.Status = lease.Expired
	}
	if d.Until != nil && d.State == leased {
		r.LeaseUntil = d.Until.UTC()
	} else if d.Until != nil {
		r.DueAt = d.Until.UTC()
	}
	return r
}

// PurgeLeases implements [lease.Store].
func (l *Leases) PurgeLeases(ctx context.Context, retention time.Duration, limit int) (int, error) {
	if limit <= 0 {
		return 0, nil // MongoDB takes 0 for no limit
	}
	now, err := serverTime(ctx, l.keys.Database(), &l.cfg)
	if err != nil {
		return 0, wrap("read the server's clock", err)
	}
	old := expiredKey(now, now.Add(-retention))
	ctx = outside(ctx)
	ids, err := idsOf(ctx, l.keys, old, limit)
	if err != nil || len(ids) == 0 {
		return 0, wrap("look for old keys", err)
	}
	old["_id"] = in(ids) // but not what was begun meanwhile
	done, err := l.keys.DeleteMany(ctx, old)
	if err != nil {
		return 0, wrap("remove old keys", err)
	}
	return int(done.DeletedCount), nil
}
