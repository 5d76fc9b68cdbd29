package mongostore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/outbox"
)

// place is a collection, or the part of one, whose messages have one status.
type place struct {
	of     *mongo.Collection
	status outbox.Status
	filter bson.M
}

// places are what the view "messages" of the SQL stores is made of.
func (t *tx) places() []place {
	letter := func(state, failed any) bson.M {
		return bson.M{"origin": deadletter.FromRelay, "state": state, "failed": failed}
	}
	kept := bson.M{"$ne": deadletter.Discarded}
	return append(t.undead(),
		place{t.letters, outbox.Dead, letter(kept, false)},
		place{t.letters, outbox.Failed, letter(kept, true)},
		place{t.letters, outbox.Discarded, letter(deadletter.Discarded, in([]bool{false, true}))},
	)
}

// counted are the places that statistics count: of dead letters those of which something is to be
// decided, whosever they are, and those of the relay that were discarded.
func (t *tx) counted() []place {
	open := func(failed bool) bson.M { return bson.M{"state": deadletter.Open, "requeued": false, "failed": failed} }
	return append(t.undead(),
		place{t.letters, outbox.Dead, open(false)},
		place{t.letters, outbox.Failed, open(true)},
		place{t.letters, outbox.Discarded, bson.M{"origin": deadletter.FromRelay, "state": deadletter.Discarded}},
	)
}

// undead are the places of what is no dead letter.
func (t *tx) undead() []place {
	now := micros(t.now)
	return []place{
		{t.outbox, outbox.Pending, bson.M{"row.message.deliver_at": bson.M{"$lte": now}}},
		{t.outbox, outbox.Scheduled, bson.M{"row.message.deliver_at": bson.M{"$gt": now}}},
		{t.waiting, outbox.Waiting, bson.M{}},
		{t.scheduled, outbox.Scheduled, bson.M{}},
		{t.archive, outbox.Published, bson.M{}},
	}
}

// stateDoc is what a document of any of these places says of its message.
type stateDoc struct {
	Row         rowDoc     `bson:"row"`
	Attempts    int        `bson:"attempts"`
	Error       string     `bson:"error"`
	DueAt       *time.Time `bson:"due_at"`
	PublishedAt *time.Time `bson:"published_at"`
}

func (d *stateDoc) state(status outbox.Status) outbox.State {
	r := &d.Row
	st := outbox.State{
		ID: r.MessageID, Status: status, Topic: r.Topic, Destination: r.Destination, Type: r.Message.Type, Source: r.Message.Source,
		Tenant: r.Message.Tenant, Key: r.Key, Attempts: d.Attempts, Error: d.Error, EnqueuedAt: r.EnqueuedAt, DueAt: d.DueAt, PublishedAt: d.PublishedAt,
	}
	if status == outbox.Scheduled {
		due := fromMicros(r.Message.DeliverAt)
		st.DueAt = &due
	}
	return st
}

// statesIn returns the states in the places that keep is true for.
func (s *Store) statesIn(ctx context.Context, keep func(outbox.Status) bool, filter func(t *tx) bson.M, limit int, order ...string) ([]outbox.State, error) {
	var states []outbox.State
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		states = []outbox.State{}
		for _, p := range t.places() {
			if !keep(p.status) {
				continue
			}
			both := bson.M{"$and": bson.A{p.filter, filter(t)}}
			docs, err := find[stateDoc](ctx, p.of, both, sorted(order...).SetLimit(int64(limit)))
			if err != nil {
				return err
			}
			for _, d := range docs {
				states = append(states, d.state(p.status))
			}
		}
		return nil
	})
	return states, err
}

// MessageStates implements [outbox.Inspector].
func (s *Store) MessageStates(ctx context.Context, id string) ([]outbox.State, error) {
	all := func(outbox.Status) bool { return true }
	states, err := s.statesIn(ctx, all, func(*tx) bson.M { return bson.M{"row.message_id": id} }, 0)
	slices.SortFunc(states, func(a, b outbox.State) int {
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.Destination, b.Destination))
	})
	return states, err
}

// OutboxMessages implements [outbox.Inspector].
func (s *Store) OutboxMessages(ctx context.Context, f outbox.Filter) ([]outbox.State, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	wanted := func(st outbox.Status) bool {
		onItsWay := st == outbox.Pending || st == outbox.Waiting || st == outbox.Scheduled
		return st == f.Status || f.Status == "" && onItsWay
	}
	order := []string{"row.enqueued_at", "row.message_id", "row.destination"}
	if f.Status == outbox.Published {
		order = []string{"-published_at"}
	}
	limit := cmp.Or(f.Limit, outbox.DefaultLimit)
	list, err := s.statesIn(ctx, wanted, func(t *tx) bson.M { return t.matching(f) }, limit, order...)
	slices.SortStableFunc(list, func(a, b outbox.State) int {
		if f.Status == outbox.Published {
			return b.PublishedAt.Compare(*a.PublishedAt)
		}
		return cmp.Or(a.EnqueuedAt.Compare(b.EnqueuedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Destination, b.Destination))
	})
	return list[:min(len(list), limit)], err
}

func (t *tx) matching(f outbox.Filter) bson.M {
	m := bson.M{}
	if f.OlderThan > 0 {
		m["row.enqueued_at"] = bson.M{"$lte": t.now.Add(-f.OlderThan)}
	}
	set(m, "row.topic", f.Topic)
	set(m, "row.key", f.Key)
	set(m, "row.message.tenant", f.Tenant)
	set(m, "row.message.correlation_id", f.CorrelationID)
	set(m, "row.message_id", f.MessageID)
	if f.Text != "" {
		m["$or"] = haveText(f.Text, "row.message_id", "row.key", "row.message.correlation_id")
	}
	return m
}

// OutboxStats implements [outbox.Inspector].
func (s *Store) OutboxStats(ctx context.Context) ([]outbox.Stats, error) {
	return s.count(ctx, func(outbox.Status) bool { return true })
}

// OutboxBacklog implements [outbox.Inspector].
func (s *Store) OutboxBacklog(ctx context.Context) ([]outbox.Stats, error) {
	return s.count(ctx, func(st outbox.Status) bool { return st == outbox.Pending || st == outbox.Waiting })
}

func (s *Store) count(ctx context.Context, counts func(outbox.Status) bool) ([]outbox.Stats, error) {
	var stats []outbox.Stats
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		stats = []outbox.Stats{}
		for _, p := range t.counted() {
			if !counts(p.status) {
				continue
			}
			topics, err := countTopics(ctx, p)
			if err != nil {
				return err
			}
			for _, g := range topics {
				stats = append(stats, outbox.Stats{Topic: g.Of.Topic, Status: p.status, Consumer: g.Of.Consumer, Count: g.Count, Oldest: t.now.Sub(g.Oldest)})
			}
		}
		return nil
	})
	return merged(stats), err
}

type topicCount struct {
	Of struct {
		Topic    string `bson:"topic"`
		Consumer string `bson:"consumer"`
	} `bson:"_id"`
	Count  int64     `bson:"count"`
	Oldest time.Time `bson:"oldest"`
}

// since is what the age of a message counts from: that of a scheduled one, until it is published,
// from when it comes due.
func (p place) since() any {
	enqueued := "$row.enqueued_at"
	if p.status != outbox.Pending && p.status != outbox.Waiting && p.status != outbox.Scheduled {
		return enqueued
	}
	due := bson.M{"$add": bson.A{time.UnixMilli(0), bson.M{"$multiply": bson.A{"$row.message.deliver_at", 0.001}}}}
	return bson.M{"$cond": bson.A{bson.M{"$gt": bson.A{due, enqueued}}, due, enqueued}}
}

func countTopics(ctx context.Context, p place) ([]topicCount, error) {
	cursor, err := p.of.Aggregate(ctx, mongo.Pipeline{
		{{Key: "$match", Value: p.filter}},
		{{Key: "$group", Value: bson.M{"_id": bson.M{"topic": "$row.topic", "consumer": "$consumer"}, "count": bson.M{"$sum": int64(1)}, "oldest": bson.M{"$min": p.since()}}}},
	})
	if err != nil {
		return nil, err
	}
	var topics []topicCount
	err = cursor.All(ctx, &topics)
	return topics, err
}

// merged sorts stats by topic, status and consumer, and adds up those of one status in two places.
func merged(stats []outbox.Stats) []outbox.Stats {
	slices.SortFunc(stats, func(a, b outbox.Stats) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Consumer, b.Consumer))
	})
	list := []outbox.Stats{}
	for _, st := range stats {
		if n := len(list); n > 0 && list[n-1].Topic == st.Topic && list[n-1].Status == st.Status && list[n-1].Consumer == st.Consumer {
			list[n-1].Count += st.Count
			list[n-1].Oldest = max(list[n-1].Oldest, st.Oldest)
			continue
		}
		list = append(list, st)
	}
	return list
}

// InboxStates implements [inbox.Inspector].
func (s *Store) InboxStates(ctx context.Context, id, consumer string) ([]inbox.State, error) {
	var states []inbox.State
	err := s.inTx(ctx, func(ctx context.Context, t *tx) error {
		states = []inbox.State{}
		byID := bson.M{"$or": bson.A{bson.M{"message_id": id}, bson.M{"_id.message": id}}}
		byKey := bson.M{"_id.message": id}
		set(byID, "_id.consumer", consumer)
		set(byKey, "_id.consumer", consumer)
		records, err := find[recordDoc](ctx, s.inbox, byID)
		if err != nil {
			return err
		}
		ended := make(map[keyDoc]bool)
		for _, r := range records {
			ended[r.Key] = true
			states = append(states, r.state())
		}
		attempts, err := find[attemptDoc](ctx, s.attempts, byKey)
		for _, a := range attempts {
			if !ended[a.Key] {
				states = append(states, a.state())
			}
		}
		return err
	})
	slices.SortFunc(states, func(a, b inbox.State) int {
		return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Source, b.Source),
			cmp.Compare(a.Alias, b.Alias), cmp.Compare(a.Message, b.Message))
	})
	return states, err
}

func (d *recordDoc) state() inbox.State {
	st := d.Key.state()
	st.MessageID, st.Type = d.MessageID, d.Type
	if d.Dead {
		st.DeadAt = &d.ProcessedAt
	} else {
		st.ProcessedAt = &d.ProcessedAt
	}
	return st
}

func (d *attemptDoc) state() inbox.State {
	st := d.Key.state()
	st.Attempts, st.DueAt, st.Error = d.Count, &d.DueAt, d.error()
	return st
}

// error returns the error of the last failed attempt.
func (d *attemptDoc) error() string {
	if n := len(d.History); n > 0 {
		return d.History[n-1].Error
	}
	return ""
}

func (k keyDoc) state() inbox.State {
	return inbox.State{Tenant: k.Tenant, Consumer: k.Consumer, Source: k.Source, Alias: k.Alias, Message: k.Message}
}
