package compat

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/inbox"
)

// DefaultCleanupDays is the age of records that CleanupOldRecords removes for 0.
const DefaultCleanupDays = 30

// cleanupBatch is how many records one statement removes.
const cleanupBatch = 1000

// Records is an inbox that is checked before a message is handled and marked afterwards, for one
// tenant and one consumer:
//
//	done, err := records.IsProcessed(ctx, tx, id)     // true: skip the message
//	… the handler's own writes in tx …
//	_, err = records.MarkProcessed(ctx, tx, id, "OrderCreated", compat.Details{})
//	… commit, or roll back if err is not nil …
//
// Messages are identified by their id alone, as is usual in such inboxes; so a consumer of two
// producers needs ids that are unique across both. Records of package consumer, whose key includes
// source and type, are separate. Records is safe for concurrent use as far as tx is.
type Records[Tx any] struct {
	recorder inbox.Recorder[Tx]
	tenant   string
	consumer string
}

// NewRecords returns the records of one consumer. An empty tenant stands for the default one.
// The error names what is missing.
func NewRecords[Tx any](recorder inbox.Recorder[Tx], tenant, consumer string) (*Records[Tx], error) {
	switch {
	case recorder == nil:
		return nil, required("recorder")
	case consumer == "":
		return nil, required("consumer")
	}
	return &Records[Tx]{recorder: recorder, tenant: orDefault(tenant), consumer: consumer}, nil
}

// Details is what a record may hold in addition to the message's id and type. All of it is optional.
// A store whose inbox is compact keeps neither Source nor Extra. An Extra that is a JSON object is
// stored as it is; with a Source both are: {"source": …, "extra": …}.
type Details struct {
	Payload []byte          // only its hash is kept
	Source  string          // the producing service
	Extra   json.RawMessage // a JSON value
}

// Record is the record of a processed message.
type Record struct {
	Tenant, Consumer, MessageID string
	Type, Source                string
	ProcessedAt                 time.Time       // by the database's clock
	PayloadHash                 string          // SHA-256 of the payload, in hex; "" without a payload
	Extra                       json.RawMessage // nil if there is none
}

// IsProcessed reports whether tx sees a record of the message. False guarantees nothing: another
// transaction may be processing it. MarkProcessed decides.
func (r *Records[Tx]) IsProcessed(ctx context.Context, tx Tx, id string) (bool, error) {
	_, found, err := r.GetRecord(ctx, tx, id)
	return found, err
}

// MarkProcessed records the message in tx and returns the record. If an open transaction has marked
// it, MarkProcessed waits. The error is [ErrAlreadyProcessed] if there is a record;
// after any error tx must be rolled back.
func (r *Records[Tx]) MarkProcessed(ctx context.Context, tx Tx, id, eventType string, d Details) (Record, error) {
	if id == "" {
		return Record{}, required("id")
	}
	extra, err := d.extraData()
	if err != nil {
		return Record{}, err
	}
	rec := inbox.Record{Key: r.key(id), MessageID: id, Type: eventType, Extra: extra, PayloadHash: d.hash()}
	added, err := r.recorder.AddRecord(ctx, tx, rec)
	if err != nil {
		return Record{}, err
	}
	if !added {
		return Record{}, ErrAlreadyProcessed
	}
	marked, _, err := r.GetRecord(ctx, tx, id)
	return marked, err
}

// GetRecord returns the record of the message as tx sees it, and false if there is none.
func (r *Records[Tx]) GetRecord(ctx context.Context, tx Tx, id string) (Record, bool, error) {
	found, ok, err := r.recorder.FindRecord(ctx, tx, r.key(id))
	if err != nil || !ok {
		return Record{}, false, err
	}
	rec, err := recordOf(found)
	return rec, err == nil, err
}

// CleanupOldRecords removes, in tx, the tenant's records that are older than the given number of
// days, 30 for 0, and returns how many. It covers all consumers of the tenant and no other tenant.
// A janitor does the same for all tenants, in small transactions.
func (r *Records[Tx]) CleanupOldRecords(ctx context.Context, tx Tx, olderThanDays int) (int, error) {
	switch {
	case olderThanDays < 0:
		return 0, &waybill.InvalidError{Field: "olderThanDays", Reason: fmt.Sprintf("is %d; it must not be negative", olderThanDays)}
	case olderThanDays == 0:
		olderThanDays = DefaultCleanupDays
	}
	age := time.Duration(olderThanDays) * 24 * time.Hour
	removed := 0
	for {
		n, err := r.recorder.RemoveRecords(ctx, tx, r.tenant, age, cleanupBatch)
		removed += n
		if err != nil || n < cleanupBatch {
			return removed, err
		}
	}
}

func (r *Records[Tx]) key(id string) inbox.Key {
	return inbox.Key{Tenant: r.tenant, Consumer: r.consumer, Message: id}
}

// stored is the JSON of source and extra data where extra data alone can't represent both. The source
// has no separate column: the inbox's column is part of the key, and here messages are identified by
// their id alone.
type stored struct {
	Source string          `json:"source,omitempty"`
	Extra  json.RawMessage `json:"extra,omitempty"`
}

// extraData returns what is stored as extra data: Extra itself, or a [stored] if there is a source
// too, if Extra is no object, or if it looks like a stored one.
func (d Details) extraData() (json.RawMessage, error) {
	switch {
	case d.Source == "" && d.Extra == nil:
		return nil, nil
	case d.Extra != nil && !json.Valid(d.Extra):
		return nil, &waybill.InvalidError{Field: "Details.Extra", Reason: "is not JSON"}
	case d.Source == "" && isObject(d.Extra) && !isStored(d.Extra):
		return d.Extra, nil
	}
	return json.Marshal(stored{Source: d.Source, Extra: d.Extra})
}

func isObject(text json.RawMessage) bool { return bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) }

// isStored reports whether text is an object with members of a [stored] and no others. Only their
// names are compared, which a database preserves.
func isStored(text json.RawMessage) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return false
	}
	n := len(members)
	delete(members, "source")
	delete(members, "extra")
	return n > 0 && len(members) == 0
}

func (d Details) hash() string {
	if d.Payload == nil {
		return ""
	}
	sum := sha256.Sum256(d.Payload)
	return hex.EncodeToString(sum[:])
}

func recordOf(s inbox.StoredRecord) (Record, error) {
	d := stored{Extra: s.Extra}
	if isStored(s.Extra) {
		d.Extra = nil
		if err := json.Unmarshal(s.Extra, &d); err != nil {
			return Record{}, fmt.Errorf("extra data of record %q: %w", s.MessageID, err)
		}
	}
	return Record{
		Tenant: s.Tenant, Consumer: s.Consumer, MessageID: s.Message, Type: s.Type, Source: d.Source,
		ProcessedAt: s.ProcessedAt, PayloadHash: s.PayloadHash, Extra: d.Extra,
	}, nil
}
