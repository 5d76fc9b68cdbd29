package promobserve

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/schedule"
)

var (
	relayRunning       = describe("relay_running", "1 while the relay runs.")
	relayLanes         = describe("relay_lanes", "Lanes that the relay owns.")
	relayLease         = describe("relay_lease_remaining_seconds", "What is left of the relay's lease; negative if it has expired.")
	relayHeld          = describe("relay_held_messages", "Messages claimed and not yet settled.")
	relayParkedKeys    = describe("relay_parked_keys", "Keys in the relay's lanes that wait behind dead letters.")
	relayParked        = describe("relay_parked_messages", "Messages in the relay's lanes that wait behind dead letters.")
	relayBackPressure  = describe("relay_back_pressure", "1 while the relay claims nothing new because too much is parked.")
	relayPaused        = describe("relay_destination_paused", "1 while a destination has not answered since its last failure.", "destination")
	relayLastPublished = describe("relay_last_published_timestamp_seconds", "When a destination last accepted something; 0 if none has yet.")

	backlogMessages = describe("backlog_messages", "Messages that are not published yet, by topic and Pending, Waiting or Scheduled.", "topic", "status")
	backlogOldest   = describe("backlog_oldest_age_seconds", "Age of the oldest of them since its enqueue, or since it came due if it was scheduled, by the database's clock.", "topic", "status")
	openLetters     = describe("dead_letters", "Open dead letters, of the 100 largest groups.", "origin", "consumer", "topic", "reason")
	sagaInstances   = describe("sagas", "Instances of sagas that the store holds, those included that have ended and are kept.", "saga", "status")
	sagaIdle        = describe("saga_idle_seconds", "Time since the change, by the database's clock, of the instance that has been without one for the longest.", "saga", "status")
	inboxRecords    = describe("inbox_records", "About how many records the inbox holds, by the database's statistics.")
	inboxOldest     = describe("inbox_oldest_age_seconds", "Age of the oldest record, by the database's clock; 0 if there is none.")
	schedules       = describe("schedules", "Recurring schedules that are active, paused or ended.", "status")
	scheduleDue     = describe("schedule_due", "What is due and not yet in the outbox: recurring schedules, or single messages.", "kind")
	scheduleLate    = describe("schedule_due_oldest_age_seconds", "Time since the first of them was due, by the database's clock; 0 if there is none.", "kind")
	deadRows        = describe("database_dead_rows", "About how many rows of the outbox are dead and not yet vacuumed, by the database's statistics.")
	transactionAge  = describe("database_oldest_transaction_age_seconds", "Age of the oldest open transaction that has enqueued, or has not; 0 if there is none.", "enqueued")
	heldRows        = describe("database_held_transactions", "Transactions that have begun since the oldest one from which on dead rows stay; 0 if nothing keeps them.", "holder")
	archiveDays     = describe("database_archive_days", "Days, from today on, that have a place in the archive.")
	consumerLag     = describe("consumer_lag_messages", "Messages that wait at the broker for a consumer, and that none of its replicas holds.", "consumer")
	clockOffset     = describe("database_clock_offset_seconds", "How far the database's clock is ahead of this process's.")
	storeReadAge    = describe("store_read_age_seconds", "How old the figures read from the store are.", "what")

	descriptions = []*prometheus.Desc{
		relayRunning, relayLanes, relayLease, relayHeld, relayParkedKeys, relayParked, relayBackPressure, relayPaused, relayLastPublished,
		backlogMessages, backlogOldest, openLetters, sagaInstances, sagaIdle, inboxRecords, inboxOldest, schedules, scheduleDue, scheduleLate,
		deadRows, transactionAge, heldRows, archiveDays, consumerLag, clockOffset, storeReadAge,
	}
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

func gauge(d *prometheus.Desc, v float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func collectRelay(ch chan<- prometheus.Metric, s relay.Status) {
	ch <- gauge(relayRunning, one(s.Running))
	ch <- gauge(relayLanes, float64(s.Lanes))
	ch <- gauge(relayLease, s.Lease.Seconds())
	ch <- gauge(relayHeld, float64(s.Held))
	ch <- gauge(relayParkedKeys, float64(s.ParkedKeys))
	ch <- gauge(relayParked, float64(s.Parked))
	ch <- gauge(relayBackPressure, one(s.BackPressure))
	for _, name := range s.Destinations {
		ch <- gauge(relayPaused, one(slices.Contains(s.Paused, name)), name)
	}
	ch <- gauge(relayLastPublished, timestamp(s.LastPublishedAt))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (c *Collector) backlog(ctx context.Context) ([]prometheus.Metric, error) {
	stats, err := c.cfg.Backlog.OutboxBacklog(ctx)
	if err != nil {
		return nil, err
	}
	var list []prometheus.Metric
	for _, s := range stats {
		list = append(list,
			gauge(backlogMessages, float64(s.Count), s.Topic, string(s.Status)),
			gauge(backlogOldest, s.Oldest.Seconds(), s.Topic, string(s.Status)))
	}
	return list, nil
}

// deadLetters adds up groups that differ only in what is no label.
func (c *Collector) deadLetters(ctx context.Context) ([]prometheus.Metric, error) {
	groups, err := c.cfg.DeadLetters.DeadLetterGroups(ctx, largestGroups)
	if err != nil {
		return nil, err
	}
	type key struct{ origin, consumer, topic, reason string }
	sums := make(map[key]int)
	for _, g := range groups {
		sums[key{string(g.Origin), g.Consumer, g.Topic, string(g.Reason)}] += g.Open
	}
	var list []prometheus.Metric
	for k, n := range sums {
		list = append(list, gauge(openLetters, float64(n), k.origin, k.consumer, k.topic, k.reason))
	}
	return list, nil
}

// sagas leaves out the idle time of sagas that have ended.
func (c *Collector) sagas(ctx context.Context) ([]prometheus.Metric, error) {
	counts, err := c.cfg.Sagas.SagaCounts(ctx)
	if err != nil {
		return nil, err
	}
	var list []prometheus.Metric
	for _, n := range counts {
		list = append(list, gauge(sagaInstances, float64(n.Count), n.Saga, string(n.Status)))
		if !n.Status.Ended() {
			list = append(list, gauge(sagaIdle, n.Idle.Seconds(), n.Saga, string(n.Status)))
		}
	}
	return list, nil
}

// inbox leaves the number out if the store does not know it.
func (c *Collector) inbox(ctx context.Context) ([]prometheus.Metric, error) {
	size, err := c.cfg.Inbox.InboxSize(ctx)
	if err != nil {
		return nil, err
	}
	list := []prometheus.Metric{gauge(inboxOldest, size.Oldest.Seconds())}
	if size.Records >= 0 {
		list = append(list, gauge(inboxRecords, float64(size.Records)))
	}
	return list, nil
}

func (c *Collector) schedules(ctx context.Context) ([]prometheus.Metric, error) {
	stats, err := c.cfg.Schedules.ScheduleStats(ctx)
	if err != nil {
		return nil, err
	}
	return []prometheus.Metric{
		gauge(schedules, float64(stats.Active), string(schedule.Active)),
		gauge(schedules, float64(stats.Paused), string(schedule.Paused)),
		gauge(schedules, float64(stats.Ended), string(schedule.Ended)),
		gauge(scheduleDue, float64(stats.Due), "recurring"),
		gauge(scheduleDue, float64(stats.DueMessages), "message"),
		gauge(scheduleLate, stats.Late.Seconds(), "recurring"),
		gauge(scheduleLate, stats.LateMessages.Seconds(), "message"),
	}, nil
}

func (c *Collector) upkeep(ctx context.Context) ([]prometheus.Metric, error) {
	u, err := c.cfg.Upkeep.OutboxUpkeep(ctx)
	if err != nil {
		return nil, err
	}
	list := []prometheus.Metric{
		gauge(deadRows, float64(u.DeadRows)),
		gauge(transactionAge, u.OldestOpen.Seconds(), "false"),
		gauge(transactionAge, u.OldestEnqueued.Seconds(), "true"),
		gauge(archiveDays, float64(u.ArchiveDays)),
	}
	for holder, n := range u.Held {
		list = append(list, gauge(heldRows, float64(n), holder))
	}
	return list, nil
}

func (c *Collector) lag(ctx context.Context) ([]prometheus.Metric, error) {
	lags, err := c.cfg.Lag(ctx)
	if err != nil {
		return nil, err
	}
	var list []prometheus.Metric
	for name, lag := range lags {
		list = append(list, gauge(consumerLag, float64(lag.Messages), name))
	}
	return list, nil
}

// clock compares the middle of the call with the database's answer.
func (c *Collector) clock(ctx context.Context) ([]prometheus.Metric, error) {
	began := time.Now()
	theirs, err := c.cfg.Clock(ctx)
	if err != nil {
		return nil, err
	}
	ours := began.Add(time.Since(began) / 2)
	return []prometheus.Metric{gauge(clockOffset, theirs.Sub(ours).Seconds())}, nil
}
