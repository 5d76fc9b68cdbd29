package kafkabroker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waybill-go/waybill/internal/brokerkit"
)

const (
	// defaultMaxBytes is Kafka's own limit for a batch of records, for topics whose
	// configuration we may not read.
	defaultMaxBytes = 1048588

	// minMaxBytes and maxMaxBytes bound the limit that the client library accepts.
	minMaxBytes = 512
	maxMaxBytes = 64 << 20

	maxBytesKey = "max.message.bytes"

	// topicAge is how long what was read about a topic is cached.
	topicAge = time.Minute
)

// topics remembers which topics exist and the size limit of each. It is safe for concurrent use.
type topics struct {
	cfg   Config
	admin *kadm.Client

	mu    sync.Mutex
	known map[string]topicInfo
}

type topicInfo struct {
	maxBytes int // of a batch of records
	read     time.Time
}

func newTopics(cfg Config, admin *kadm.Client) *topics {
	return &topics{cfg: cfg, admin: admin, known: make(map[string]topicInfo)}
}

// maxBytes returns the limit of a topic as it was last read.
func (t *topics) maxBytes(name string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if info, ok := t.known[name]; ok {
		return info.maxBytes
	}
	return defaultMaxBytes
}

// forget makes the next look read the topic again.
func (t *topics) forget(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, name)
}

// look makes sure that all of names are known, and creates missing ones if configured to. It
// returns the errors of single topics, and an error if the cluster does not answer.
func (t *topics) look(ctx context.Context, names []string) (map[string]error, error) {
	names = t.unknown(names)
	if len(names) == 0 {
		return nil, nil
	}
	details, err := t.describe(ctx, names)
	if err != nil {
		return nil, err
	}
	wrong := make(map[string]error)
	var there []string
	for _, name := range names {
		_, found, err := detailOf(details, name)
		if err == nil && !found {
			err = t.missing(ctx, name)
		}
		if err != nil {
			wrong[name] = err
			continue
		}
		there = append(there, name)
	}
	t.learn(there, t.readLimits(ctx, there))
	return wrong, nil
}

// describe asks the cluster about topics, bypassing the client library's cache. One that we have
// no rights to has its error in its detail.
func (t *topics) describe(ctx context.Context, names []string) (kadm.TopicDetails, error) {
	fresh := kadm.WithAuthorizedOps(ctx)
	details, err := t.admin.ListTopicsWithInternal(fresh, names...)
	if !isAuth(err) {
		return details, classify("look up topics", err)
	}
	details = make(kadm.TopicDetails) // one refusal hides all others: ask for each
	for _, name := range names {
		one, err := t.admin.ListTopicsWithInternal(fresh, name)
		switch {
		case isAuth(err):
			details[name] = kadm.TopicDetail{Topic: name, Err: err}
		case err != nil:
			return nil, classify("look up topics", err)
		default:
			details[name] = one[name]
		}
	}
	return details, nil
}

// detailOf returns what the cluster reports about a topic, if it exists.
func detailOf(details kadm.TopicDetails, name string) (detail kadm.TopicDetail, found bool, _ error) {
	detail, found = details[name]
	if !found || errors.Is(detail.Err, kerr.UnknownTopicOrPartition) {
		return detail, false, nil
	}
	return detail, true, classify(fmt.Sprintf("look up topic %q", name), detail.Err)
}

func isAuth(err error) bool {
	var auth *kadm.AuthError
	return errors.As(err, &auth)
}

func (t *topics) unknown(names []string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, name := range names {
		if info, ok := t.known[name]; !ok || time.Since(info.read) >= topicAge {
			list = append(list, name)
		}
	}
	return brokerkit.Unique(list, func(name string) string { return name })
}

// missing creates a topic, or reports that it does not exist.
func (t *topics) missing(ctx context.Context, name string) error {
	if !t.cfg.CreateTopics {
		return unknownTopic(name)
	}
	return t.create(ctx, name)
}

// create creates a topic unless another process was faster.
func (t *topics) create(ctx context.Context, name string) error {
	partitions, replicas := int32(-1), int16(-1) // the cluster's defaults
	if n := t.cfg.partitionsOf(name); n > 0 {
		partitions = int32(n)
	}
	if t.cfg.ReplicationFactor > 0 {
		replicas = int16(t.cfg.ReplicationFactor)
	}
	_, err := t.admin.CreateTopic(ctx, partitions, replicas, t.cfg.settingsOf(name), name)
	if errors.Is(err, kerr.TopicAlreadyExists) {
		return nil
	}
	return classify(fmt.Sprintf("create topic %q", name), err)
}

// readLimits asks for the limits of topics. Where the cluster does not report them, the default
// applies.
func (t *topics) readLimits(ctx context.Context, names []string) map[string]int {
	limits := make(map[string]int)
	if len(names) == 0 {
		return limits
	}
	configs, err := t.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return limits
	}
	for _, topic := range configs {
		if n, err := strconv.Atoi(setting(topic, maxBytesKey)); topic.Err == nil && err == nil {
			limits[topic.Name] = min(max(n, minMaxBytes), maxMaxBytes)
		}
	}
	return limits
}

func (t *topics) learn(names []string, limits map[string]int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range names {
		info := topicInfo{maxBytes: defaultMaxBytes, read: time.Now()}
		if n, ok := limits[name]; ok {
			info.maxBytes = n
		}
		t.known[name] = info
	}
}

// setting returns the value of one setting of a topic, "" if the cluster does not report it.
func setting(topic kadm.ResourceConfig, key string) string {
	for _, c := range topic.Configs {
		if c.Key == key {
			return c.MaybeValue()
		}
	}
	return ""
}
