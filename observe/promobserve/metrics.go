package promobserve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill/janitor"
)

// metrics are the metrics of an observer.
type metrics struct {
	enqueued, enqueueErrors, enqueueDuplicates *prometheus.CounterVec
	enqueueDuration                            *prometheus.HistogramVec

	published, publishFailures  *prometheus.CounterVec
	publishDuration, publishAge *prometheus.HistogramVec

	retried, dead, failed, requeued, repeats *prometheus.CounterVec

	handleDuration, handleAge   *prometheus.HistogramVec
	duplicates, conflicts, busy *prometheus.CounterVec
	unleased                    *prometheus.CounterVec

	claimDuration, claimMessages, settleDuration             *prometheus.HistogramVec
	settleErrors, pauses, leaseLost, overtaken, dedupExpired *prometheus.CounterVec

	cleanedRows, cleanupErrors, partitions, loopErrors *prometheus.CounterVec

	scheduleLateness *prometheus.HistogramVec
	scheduleSkipped  *prometheus.CounterVec

	lateReplies              *prometheus.CounterVec
	sagaChanges, sagaIgnored *prometheus.CounterVec

	inboxRequests *prometheus.CounterVec
	inboxDuration *prometheus.HistogramVec

	list []prometheus.Collector
}

// cleaned are the kinds of rows that are cleaned up.
var cleaned = []janitor.Kind{janitor.Inbox, janitor.Attempts, janitor.Leases, janitor.Letters, janitor.Sagas, janitor.Audit, janitor.Responses, janitor.Archive}

var (
	// quick are the bucket bounds for operations, in seconds.
	quick = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

	// slow are the bucket bounds for ages, in seconds: from what a healthy relay needs to a day.
	slow = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400}

	// sizes are the bucket bounds for numbers of messages.
	sizes = []float64{1, 5, 10, 50, 100, 250, 500, 1000, 2500, 5000}
)

func newMetrics() *metrics {
	m := &metrics{}
	m.flow()
	m.trouble()
	m.relay()
	m.service()
	return m
}

func (m *metrics) flow() {
	m.enqueued = m.counter("enqueued_total", "Messages stored by writers, in transactions that may still have rolled back.", "topic", "type")
	m.enqueueErrors = m.counter("enqueue_errors_total", "Enqueues that failed, or whose transaction did.", "kind")
	m.enqueueDuplicates = m.counter("enqueue_duplicates_total", "Messages that writers did not store because their id was taken.", "topic", "type")
	m.enqueueDuration = m.histogram("enqueue_duration_seconds", "Duration of an enqueue; of InTx, with the whole transaction.", quick)
	m.published = m.counter("published_total", "Messages that the broker has accepted.", "destination", "topic", "type")
	m.publishFailures = m.counter("publish_failures_total", "Attempts to publish a message that failed.", "topic", "kind")
	m.publishDuration = m.histogram("publish_duration_seconds", "Time until the broker had accepted a batch, once for each topic and type in it.", quick, "destination", "topic")
	m.publishAge = m.histogram("publish_age_seconds", "Age of messages when the broker accepted them: since their Time, normally the enqueue.", slow, "topic")
	m.handleDuration = m.histogram("handle_duration_seconds", "Duration of handlers with their transactions.", quick, "consumer", "topic", "result")
	m.handleAge = m.histogram("handle_age_seconds", "Age of messages when a handler is called with them.", slow, "consumer", "topic")
	m.duplicates = m.counter("duplicates_total", "Deliveries skipped because the inbox holds the message.", "consumer", "topic")
	m.conflicts = m.counter("conflicts_total", "Messages that came under an inbox key which was processed with another payload.", "consumer", "topic")
	m.busy = m.counter("busy_total", "Deliveries requeued because their retry was not due, or their message was being handled elsewhere.", "consumer", "topic")
	m.unleased = m.counter("unleased_total", "Messages handled without a lease because the lease store did not answer.", "consumer", "topic")
}

func (m *metrics) trouble() {
	m.retried = m.counter("retried_total", "Messages that wait for another attempt.", "consumer", "destination", "topic", "kind")
	m.dead = m.counter("dead_total", "Messages that became dead letters.", "consumer", "destination", "topic", "reason")
	m.failed = m.counter("failed_total", "Messages that failed for good with dead letters disabled.", "consumer", "destination", "topic", "reason")
	m.requeued = m.counter("requeued_total", "Requeued dead letters that a consumer ran again.", "consumer", "result")
	m.repeats = m.counter("repeats_total", "Transactions repeated at once because they clashed with others, or because a batch failed.", "consumer")
	m.pauses = m.counter("pauses_total", "Times that a destination, a topic of it, or what a consumer needs did not answer.", "consumer", "destination", "topic")
	m.leaseLost = m.counter("lease_lost_total", "Times that a relay found lanes, or a consumer the key of a message, taken over by another one.", "consumer")
	m.leaseLost.WithLabelValues("") // 0 from the start, for relays
	m.dedupExpired = m.counter("dedup_expired_total", "Messages that were published again later than the broker deduplicates, and may be there twice.", "destination", "topic")
	m.overtaken = m.counter("overtaken_total", "Messages that were published before an earlier one of their key, which was refused late.", "destination", "topic")
	m.loopErrors = m.counter("loop_errors_total", "Rounds of background loops that failed.", "loop")
}

func (m *metrics) relay() {
	m.claimDuration = m.histogram("claim_duration_seconds", "Duration of claims that found messages.", quick)
	m.claimMessages = m.histogram("claim_messages", "Messages found by a claim that found any.", sizes)
	m.settleDuration = m.histogram("settle_duration_seconds", "Time to write down the outcomes of a batch.", quick)
	m.settleErrors = m.counter("settle_errors_total", "Settlements and acknowledgements that failed; they are repeated.", "consumer")
	m.cleanedRows = m.counter("cleanup_rows_total", "Rows past their retention that were removed one by one.", "rows")
	m.cleanupErrors = m.counter("cleanup_errors_total", "Clean-ups that met a lock.", "rows")
	for _, kind := range cleaned {
		m.cleanedRows.WithLabelValues(string(kind)) // 0 from the beginning
		m.cleanupErrors.WithLabelValues(string(kind))
	}
	m.partitions = m.counter("archive_partitions_total", "Days of the archive that were added or dropped.", "action")
}

func (m *metrics) service() {
	m.scheduleLateness = m.histogram("schedule_lateness_seconds", "Time from the planned time of an occurrence to when it was enqueued.", slow, "topic")
	m.scheduleSkipped = m.counter("schedule_skipped_total", "Occurrences that were left out, by overlap or because they were too late.", "topic")
	m.lateReplies = m.counter("late_replies_total", "Replies that were dropped because nobody waited for them any more.", "client")
	m.sagaChanges = m.counter("saga_changes_total", "Changes of instances of sagas, by the status that they have led to, in transactions that may still have rolled back.", "saga", "status")
	m.sagaIgnored = m.counter("saga_ignored_total", "Messages that sagas have passed over.", "saga", "reason")
	m.inboxRequests = m.counter("inbox_requests_total", "Requests to the inbox service, by what was answered.", "operation", "status")
	m.inboxDuration = m.histogram("inbox_request_duration_seconds", "Duration of requests to the inbox service.", quick, "operation")
}

func (m *metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	if len(labels) == 0 {
		c.WithLabelValues() // 0 from the beginning, so that a rate sees the first
	}
	m.list = append(m.list, c)
	return c
}

func (m *metrics) histogram(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: bounds}, labels)
	m.list = append(m.list, h)
	return h
}

func (m *metrics) all() []prometheus.Collector { return m.list }

const namespace = "waybill"
