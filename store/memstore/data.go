package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/lanehash"
	"github.com/waybill-go/waybill/outbox"
	"github.com/waybill-go/waybill/saga"
	"github.com/waybill-go/waybill/schedule"
)

// data is what the store holds. State is which map a message is in, as it is which table
// in the other stores.
type data struct {
	position  int64 // the last one drawn; never taken back
	outbox    map[int64]row
	waiting   map[place]waitingRow
	archive   map[int64]archivedRow         // by order of publishing
	published int64                         // the last key of archive
	ids       map[outbox.Identity]time.Time // enqueued with Unique
	scheduled map[int64]row
	tokens    map[string]int64 // positions in scheduled, by id, of what was scheduled by itself
	schedules map[string]schedule.State
	sagas     map[saga.ID]saga.Instance
	sagaLog   map[saga.ID][]saga.Entry
	instances int64 // the number of the latest instance of a saga; never taken back
	letters   map[int64]letter
	number    int64 // of the last letter
	audit     []deadletter.Entry
	replays   map[int64]replay
	entries   int64 // the number of the last entry; never taken back
	inbox     map[inbox.Key]record
	attempts  map[inbox.Key]attempt
	offsets   map[inbox.Partition]inbox.Progress
	leases    map[string]leaseRow
	responses map[string]savedResponse
	relays    map[string]relayNode
	lanes     map[int]lane
	values    map[string]any
}

func newData() data {
	d := data{
		outbox: make(map[int64]row), waiting: make(map[place]waitingRow), archive: make(map[int64]archivedRow),
		ids: make(map[outbox.Identity]time.Time), scheduled: make(map[int64]row), letters: make(map[int64]letter), replays: make(map[int64]replay),
		inbox: make(map[inbox.Key]record), attempts: make(map[inbox.Key]attempt), offsets: make(map[inbox.Partition]inbox.Progress), leases: make(map[string]leaseRow),
		sagas: make(map[saga.ID]saga.Instance), sagaLog: make(map[saga.ID][]saga.Entry),
		responses: make(map[string]savedResponse), tokens: make(map[string]int64), schedules: make(map[string]schedule.State),
		relays: make(map[string]relayNode), lanes: make(map[int]lane), values: make(map[string]any),
	}
	for n := range lanehash.Count {
		d.lanes[n] = lane{}
	}
	return d
}

// row is a message with what every table has of it.
type row struct {
	message    waybill.Message
	position   int64
	lane       int
	enqueuedAt time.Time
	malformed  error
}

// place identifies a waiting row.
type place struct {
	position    int64
	destination string
}

// waitingRow is a row that may not go now. due is zero for one that follows another, or a
// letter that parks its unit. One that is alone has left its unit.
type waitingRow struct {
	row
	destination    string
	due            time.Time
	alone          bool
	attempts, life int
	errText        string
	firstFailed    time.Time
	letter         int64 // that it was requeued from, 0 if from none
	replay         int64 // that requeued it, 0 if none did
	history        []deadletter.Attempt
}

func (w waitingRow) place() place { return place{w.position, w.destination} }

type archivedRow struct {
	waitingRow
	publishedAt time.Time
}

type letter struct {
	row
	deadletter.Letter
	key        inbox.Key // of a consumer's letter
	requeuedAt time.Time // zero if it is not requeued
}

type record struct {
	inbox.Record
	dead        bool
	processedAt time.Time
}

type attempt struct {
	count   int
	due     time.Time
	first   time.Time
	history []deadletter.Attempt
	starts  int
}

type lane struct {
	epoch int64
	owner string
	since time.Time
}

// relayNode is a relay that has joined, and until when its lease is.
type relayNode struct {
	started, until time.Time
	ttl            time.Duration
}

func (r *row) identity() outbox.Identity { return outbox.IdentityOf(&r.message) }

func (r *row) inUnit(topic, key string) bool {
	return key != "" && r.message.Key == key && r.message.Address() == topic
}

// messageOf returns the id of the message of a letter that is there or was requeued.
func (d *data) messageOf(number int64) string {
	if l, ok := d.letters[number]; ok {
		return l.row.message.ID
	}
	for _, w := range d.waiting {
		if w.letter == number {
			return w.message.ID
		}
	}
	return ""
}

// waits reports whether a message with the given identity waits.
func (d *data) waits(id outbox.Identity) bool {
	for _, w := range d.waiting {
		if w.identity() == id {
			return true
		}
	}
	return false
}

// pending reports whether a message with the given identity is in the outbox.
func (d *data) pending(id outbox.Identity) bool {
	for _, r := range d.outbox {
		if r.identity() == id {
			return true
		}
	}
	return false
}

// sorted returns the values of m that keep is true for, in the order of by.
func sorted[K comparable, V any, O cmp.Ordered](m map[K]V, keep func(V) bool, by func(V) O) []V {
	var list []V
	for _, v := range m {
		if keep(v) {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b V) int { return cmp.Compare(by(a), by(b)) })
	return list
}
