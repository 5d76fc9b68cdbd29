package config

import "slices"

// Options returns all options in the order in which they are printed.
func Options() []Option { return slices.Clone(options) }

// options is the table of all settings. Tests compare it with docs/configuration.md, and the defaults
// and limits with those that the library repeats.
var options = []Option{
	{
		Key: "store", Kind: String, Secret: true,
		Help: "connection URL of the database",
	},
	{
		Key: "schema", Kind: String, Default: "waybill", Min: "1", Max: "40",
		Help: "database schema that holds the tables, where the database has schemas",
	},
	{
		Key: "table_prefix", Kind: String,
		Help: "put in front of each table's name",
	},
	{
		Key: "postgres.listen_url", Kind: String, Secret: true,
		Help: "PostgreSQL: where relays listen for commits, if store goes through a pooler",
	},
	{
		Key: "source", Kind: String, Max: "255",
		Help: "name of this service in messages that name no source",
	},
	{
		Key: "broker", Kind: String, Secret: true,
		Help: "connection URL of the broker",
	},
	{
		Key: "broker_rate", Kind: Int, Default: "0", Min: "0", Max: "1000000",
		Help: "messages per second that the broker gets, from all relays together; 0: no limit",
	},
	{
		Key: "broker_structured", Kind: Bool, Default: "false",
		Help: "write messages to the broker in the structured content mode of CloudEvents",
	},
	{
		Key: "rabbitmq.exchange", Kind: String, Default: "waybill",
		Help: "RabbitMQ: exchange that topics are published to",
	},
	{
		Key: "rabbitmq.queue_type", Kind: String, Default: "auto", OneOf: []string{"auto", "quorum", "classic"},
		Help: "RabbitMQ: type that queues must have; auto makes quorum queues and uses classic ones that are there",
	},
	{
		Key: "rabbitmq.dead_letter_exchange", Kind: String, Max: "255",
		Help: "RabbitMQ: exchange and queue for what the server itself takes out of a queue",
	},
	{
		Key: "nats.stream", Kind: String, Default: "waybill",
		Help: "NATS: stream that holds the messages",
	},
	{
		Key: "nats.subject_prefix", Kind: String, Default: "waybill.",
		Help: "NATS: put in front of a topic to make its subject",
	},
	{
		Key: "webhook.secret", Kind: String, Secret: true, Hidden: true,
		Help: "webhooks: whsec_… that signs for a broker https://…; two with a space while it is replaced",
	},
	{
		Key: "webhook.timeout", Kind: Duration, Default: "15s", Min: "10ms", Max: "5m",
		Help: "webhooks: how long one request may take; a batch has relay.publish_timeout at most",
	},
	{
		Key: "webhook.allow_networks", Kind: String,
		Help: "webhooks: comma-separated networks, such as 10.1.0.0/16, that are posted to although they are not public",
	},
	{
		Key: "kafka.topic_prefix", Kind: String, Max: "100",
		Help: "Kafka: put in front of a topic to make the name of the Kafka topic",
	},
	{
		Key: "kafka.create_topics", Kind: Bool, Default: "false",
		Help: "Kafka: create topics that are missing",
	},
	{
		Key: "kafka.partitions", Kind: Int, Default: "0", Min: "0", Max: "1048576",
		Help: "Kafka: partitions of a topic that is created; 0 leaves it to the cluster",
	},
	{
		Key: "kafka.replication_factor", Kind: Int, Default: "0", Min: "0", Max: "1024",
		Help: "Kafka: copies of a topic that is created; 0 leaves it to the cluster",
	},
	{
		Key: "kafka.instance_id", Kind: String, Max: "200",
		Help: "Kafka: name under which consumers keep their partitions over a restart",
	},
	{
		Key: "kafka.transactional_id", Kind: String, Max: "100",
		Help: "Kafka: name of the outbox; relays then publish exactly once, in transactions",
	},
	{
		Key: "redis.prefix", Kind: String, Default: "waybill:", Max: "100",
		Help: "Redis: put in front of the name of each key of the broker",
	},
	{
		Key: "redis.replicas", Kind: Int, Default: "0", Min: "0",
		Help: "Redis: replicas that must have a message before it counts as published",
	},
	{
		Key: "redis.keep_for", Kind: Duration, Default: "0", Min: "0",
		Help: "Redis: how long streams keep what all consumer groups are done with",
	},
	{
		Key: "relay.node", Kind: String, Max: "255",
		Help: "name of this relay, unique among those running; made from host and process id if empty",
	},
	{
		Key: "relay.poll_interval", Kind: Duration, Default: "5s", Min: "10ms", Max: "60s",
		Help: "how long to wait for a wake-up before looking for messages anyway",
	},
	{
		Key: "relay.batch_size", Kind: Int, Default: "500", Min: "1", Max: "10000",
		Help: "most messages published together: from 100 on, as fast as the broker answers",
	},
	{
		Key: "relay.max_retries", Kind: Int, Default: "5", Min: "0",
		Help: "attempts after the first before a message becomes a dead letter",
	},
	{
		Key: "relay.parallelism", Kind: Int, Default: "4", Min: "1", Max: "64",
		Help: "batches in flight at a time; 1 is strictly one after the other",
	},
	{
		Key: "relay.mode", Kind: String, Default: "pipelined", OneOf: []string{"pipelined", "strict"},
		Help: "pipelined: several messages of one key on the wire at once; strict: one",
	},
	{
		Key: "relay.order", Kind: String, Default: "block", OneOf: []string{"block", "park", "skip"},
		Help: "what follows a failed message of its key: waits for it, waits for its dead letter too, or goes on",
	},
	{
		Key: "relay.max_parked_messages", Kind: Int, Default: "100000", Min: "1",
		Help: "messages parked behind dead letters at which a relay takes up nothing new",
	},
	{
		Key: "relay.max_parked_keys", Kind: Int, Default: "10000", Min: "1",
		Help: "parked keys at which a relay takes up nothing new",
	},
	{
		Key: "relay.lease", Kind: Duration, Default: "8s", Min: "100ms",
		Help: "how long a relay that has died keeps its lanes",
	},
	{
		Key: "relay.publish_timeout", Kind: Duration, Default: "4s", Min: "10ms",
		Help: "how long to wait for the broker's confirmation; less than relay.lease",
	},
	{
		Key: "relay.shutdown_grace", Kind: Duration, Default: "0", Min: "0",
		Help: "how long to finish what is in flight when stopped; 0: relay.publish_timeout plus 2s",
	},
	{
		Key: "relay.record", Kind: String,
		Help: "file that what the relay does is recorded in, for waybill relay replay; not recorded if empty",
	},
	{
		Key: "relay.record_size", Kind: Int, Default: "64", Min: "1", Max: "1024",
		Help: "most MiB of relay.record: what is newer takes the place of what is older",
	},
	{
		Key: "relay.record_keys", Kind: Bool, Default: "false",
		Help: "record keys and tenants as they are, instead of hashes",
	},
	{
		Key: "push.to", Kind: String,
		Help: "URL that clients are pushed to at: sse://host:port/path, or signalr://host:port/path",
	},
	{
		Key: "push.topics", Kind: String,
		Help: "topics that are pushed, comma-separated",
	},
	{
		Key: "push.group", Kind: String,
		Help: "consumer group, of this process alone and the same after a restart",
	},
	{
		Key: "push.tokens_file", Kind: String,
		Help: "file of tokens, with what each of them may see",
	},
	{
		Key: "push.allow_anonymous", Kind: Bool, Default: "false",
		Help: "let everybody on this machine see every topic, instead of tokens",
	},
	{
		Key: "push.allowed_origins", Kind: String,
		Help: "comma-separated origins, such as https://app.example.com, whose pages may connect in addition to those of the same host",
	},
	{
		Key: "watch.interval", Kind: Duration, Default: "30s", Min: "100ms", Max: "1h",
		Help: "how often waybill watch checks",
	},
	{
		Key: "watch.severity", Kind: String, Default: "warning", OneOf: []string{"warning", "problem"},
		Help: "the least that is announced",
	},
	{
		Key: "watch.name", Kind: String, Default: "waybill", Min: "1", Max: "100",
		Help: "name of the system in alerts, such as shop production",
	},
	{
		Key: "watch.state", Kind: String,
		Help: "file that keeps what was announced and what is not delivered; neither survives a restart if empty",
	},
	{
		Key: "watch.dashboard", Kind: String,
		Help: "URL of the dashboard, for links in alerts",
	},
	{
		Key: "watch.docs", Kind: String, Default: "https://github.com/waybill-go/waybill/blob/main/docs/",
		Help: "URL of the documentation, for links to runbooks",
	},
	{
		Key: "watch.webhook", Kind: String, Secret: true, Hidden: true,
		Help: "URL that alerts are posted to as JSON",
	},
	{
		Key: "watch.secret", Kind: String, Secret: true, Hidden: true,
		Help: "whsec_… that signs for watch.webhook; two with a space while it is replaced",
	},
	{
		Key: "watch.slack", Kind: String, Secret: true, Hidden: true,
		Help: "URL of an incoming webhook of Slack, or of a chat that takes the same",
	},
	{
		Key: "watch.mail", Kind: String, Secret: true,
		Help: "mail server, smtp://user:password@host:587, with STARTTLS unless it is on this machine",
	},
	{
		Key: "watch.mail_from", Kind: String, Max: "255",
		Help: "sender of mails",
	},
	{
		Key: "watch.mail_to", Kind: String,
		Help: "recipients of mails, comma-separated",
	},
	{
		Key: "retry.base_delay", Kind: Duration, Default: "1s", Min: "1ms",
		Help: "delay before the first retry, doubled for each further one",
	},
	{
		Key: "retry.max_delay", Kind: Duration, Default: "60s", Min: "1ms",
		Help: "longest delay between retries",
	},
	{
		Key: "outbox.retention", Kind: Duration, Default: "7d", Min: "0",
		Help: "how long published messages are kept; 0: not at all",
	},
	{
		Key: "inbox.retention", Kind: Duration, Default: "7d", Min: "1s",
		Help: "how long the inbox remembers processed messages; refused where a message may be delivered again later",
	},
	{
		Key: "inbox.lease", Kind: Duration, Default: "60s", Min: "30s", Max: "120s",
		Help: "how long a lease of the inbox service lasts if the client names no time",
	},
	{
		Key: "inbox.allow_short_retention", Kind: Bool, Default: "false",
		Help: "take an inbox.retention that is too short: what is delivered again later is handled again",
	},
	{
		Key: "dead_letter.retention", Kind: Duration, Default: "30d", Min: "1s",
		Help: "how long dead letters are kept after their last failure, or after they were settled",
	},
	{
		Key: "saga.retention", Kind: Duration, Default: "0", Min: "0",
		Help: "how long sagas that have ended are kept, with their logs; 0: as inbox.retention",
	},
	{
		Key: "audit.retention", Kind: Duration, Default: "365d", Min: "1s",
		Help: "how long entries of the audit log are kept",
	},
	{
		Key: "cleanup.enabled", Kind: Bool, Default: "true",
		Help: "let relays and consumers remove what is past its retention",
	},
	{
		Key: "cleanup.interval", Kind: Duration, Default: "1h", Min: "1s", Max: "24h",
		Help: "how often they do",
	},
	{
		Key: "cleanup.batch_size", Kind: Int, Default: "1000", Min: "1", Max: "10000",
		Help: "most rows removed by one statement",
	},
	{
		Key: "dead_letter.enabled", Kind: Bool, Default: "true",
		Help: "keep messages whose attempts are used up as dead letters; otherwise mark them as failed",
	},
	{
		Key: "dead_letter.replays", Kind: Bool, Default: "true",
		Help: "let relays drive bulk replays of dead letters",
	},
	{
		Key: "schedule.enabled", Kind: Bool, Default: "true",
		Help: "let relays enqueue what recurring schedules plan",
	},
	{
		Key: "schedule.poll_interval", Kind: Duration, Default: "2s", Min: "10ms", Max: "60s",
		Help: "how long to wait before looking for schedules that others have put or changed",
	},
	{
		Key: "schedule.batch_size", Kind: Int, Default: "100", Min: "1", Max: "10000",
		Help: "schedules that are read together",
	},
	{
		Key: "discovery.bus", Kind: String, Default: "rabbit", Min: "1", Max: "255",
		Help: "name that clients give to the broker, when an inbox service is announced or looked for",
	},
	{
		Key: "discovery.group", Kind: String, Default: "workers", Min: "1", Max: "255",
		Help: "consumer group that an inbox service is announced for, or looked for",
	},
	{
		Key: "discovery.timeout", Kind: Duration, Default: "3s", Min: "10ms", Max: "60s",
		Help: "how long doctor waits for an inbox service to answer",
	},
	{
		Key: "discovery.selection_wait", Kind: Duration, Default: "150ms", Min: "1ms", Max: "60s",
		Help: "how long doctor waits for others after the first answer; at most discovery.timeout",
	},
	{
		Key: "by", Kind: String, Max: "255",
		Help: "who changes something, for the audit log; user@host if empty",
	},
	{
		Key: "metrics.listen", Kind: String,
		Help: "address, such as 127.0.0.1:9464, that a relay serves /metrics and /health on, and the inbox service /metrics; none if empty",
	},
	{
		Key: "metrics.allow_public", Kind: Bool, Default: "false",
		Help: "let that address be one that other machines can reach",
	},
	{
		Key: "log.level", Kind: String, Default: "info", OneOf: []string{"debug", "info", "warn", "error"},
		Help: "minimum log level",
	},
	{
		Key: "log.format", Kind: String, Default: "text", OneOf: []string{"text", "json"},
		Help: "log format",
	},
}

func find(match func(Option) bool) (Option, bool) {
	i := slices.IndexFunc(options, match)
	if i < 0 {
		return Option{}, false
	}
	return options[i], true
}
