package traffic

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// Counts are the figures of one topic, consumer or relay in one interval.
type Counts struct {
	// Enqueued counts messages that writers have stored in a transaction, which may have been rolled
	// back. Writers that report to no [Recorder], such as foreign programs, are not counted.
	Enqueued int64 `json:"enqueued,omitempty"`

	Published int64 `json:"published,omitempty"` // messages that a broker has confirmed, once for each destination
	Handled   int64 `json:"handled,omitempty"`   // messages whose handling is committed
	Failed    int64 `json:"failed,omitempty"`    // attempts to publish or to handle that failed; an outage is none
	Retried   int64 `json:"retried,omitempty"`   // messages deferred until their next attempt
	Dead      int64 `json:"dead,omitempty"`      // messages dead-lettered

	PublishLag Histogram `json:"publish_lag,omitempty"` // from the enqueue, or from DeliverAt, to the confirm
	HandleLag  Histogram `json:"handle_lag,omitempty"`  // the same, to the commit of the handling

	// Backlog is the largest number of messages that were seen pending or waiting in the outbox, Oldest
	// the greatest age among them.
	Backlog int64         `json:"backlog,omitempty"`
	Oldest  time.Duration `json:"oldest_ns,omitempty"`
}

// Merge adds other's figures to c; of Backlog and Oldest the larger one is kept.
func (c *Counts) Merge(other Counts) {
	c.flow(other)
	c.Backlog, c.Oldest = max(c.Backlog, other.Backlog), max(c.Oldest, other.Oldest)
}

// flow adds all figures but those of the backlog.
func (c *Counts) flow(other Counts) {
	c.Enqueued += other.Enqueued
	c.Published += other.Published
	c.Handled += other.Handled
	c.Failed += other.Failed
	c.Retried += other.Retried
	c.Dead += other.Dead
	c.PublishLag.merge(other.PublishLag)
	c.HandleLag.merge(other.HandleLag)
}

// Interval is what was counted in one interval, by topic, by consumer and by relay: each of them has the same
// events. A topic may also be the address that a message was sent to.
type Interval struct {
	Topics    map[string]Counts `json:"topics,omitempty"`
	Consumers map[string]Counts `json:"consumers,omitempty"`
	Relays    map[string]Counts `json:"relays,omitempty"`
}

// Merge adds other's figures to i.
func (i *Interval) Merge(other Interval) {
	merge(&i.Topics, other.Topics)
	merge(&i.Consumers, other.Consumers)
	merge(&i.Relays, other.Relays)
}

func merge(into *map[string]Counts, from map[string]Counts) {
	for name, counts := range from {
		change(into, name, func(c *Counts) { c.Merge(counts) })
	}
}

// maxNames is how many names of a kind an interval has; events of further ones are counted under [Other].
const maxNames = 200

// Other stands for the names of which there are too many to be counted by themselves.
const Other = "(other)"

// change changes the counts of a name.
func change(in *map[string]Counts, name string, do func(c *Counts)) {
	if *in == nil {
		*in = make(map[string]Counts)
	}
	if _, known := (*in)[name]; !known && len(*in) >= maxNames {
		name = Other
	}
	c := (*in)[name]
	do(&c)
	(*in)[name] = c
}

// empty reports whether nothing was counted.
func (i *Interval) empty() bool { return len(i.Topics)+len(i.Consumers)+len(i.Relays) == 0 }

// Selection says whose figures to show. At most one field is set; the zero value stands for all topics together.
type Selection struct{ Topic, Consumer, Relay string }

// Of returns the selected figures. The backlog of all topics is the sum of theirs.
func (i *Interval) Of(s Selection) Counts {
	switch {
	case s.Topic != "":
		return i.Topics[s.Topic]
	case s.Consumer != "":
		return i.Consumers[s.Consumer]
	case s.Relay != "":
		return i.Relays[s.Relay]
	}
	var sum Counts
	for _, c := range i.Topics {
		sum.flow(c)
		sum.Backlog += c.Backlog
		sum.Oldest = max(sum.Oldest, c.Oldest)
	}
	return sum
}

// compressFrom is the size, in bytes, from which the Data of a row is compressed.
const compressFrom = 512

// Encode returns the interval as the Data of a [Row]: as JSON, by gzip if it is long.
func (i *Interval) Encode() ([]byte, error) {
	data, err := json.Marshal(i)
	if err != nil || len(data) < compressFrom {
		return data, err
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err != nil { // cannot happen: a buffer takes everything
		return nil, err
	}
	return b.Bytes(), nil
}

// decode returns what a row counts.
func decode(r Row) (i Interval, err error) {
	data := r.Data
	if len(data) > 0 && data[0] != '{' {
		data, err = uncompressed(data)
	}
	if err = errors.Join(err, json.Unmarshal(data, &i)); err != nil {
		return i, fmt.Errorf("the traffic of %s by %s is not readable: %w", r.At.Format(time.RFC3339), r.Writer, err)
	}
	return i, nil
}

func uncompressed(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// sorted returns the names in a map, in order.
func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
