//go:build unix

package soak

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// audit looks at what arrives in a stream of JetStream: the orders of a key must arrive for the first time in order.
// What comes again does no harm.
type audit struct {
	Seq       uint64      // in the stream, of the last message that was looked at
	Last      map[int]int // of each key: the number of its last order
	Again     int
	Reordered int
}

func (a *audit) arrive(key, number int) {
	switch last := a.Last[key]; {
	case number <= last:
		a.Again++
	case number > last+1:
		a.Reordered++
		fallthrough
	default:
		a.Last[key] = number
	}
}

// catchUp looks at what has arrived since. It may end before all of it with an error, and is called again then.
func (a *audit) catchUp(ctx context.Context, url string) error {
	conn, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	stream, err := js.Stream(ctx, "waybill")
	if err != nil {
		return err
	}
	end := stream.CachedInfo().State.LastSeq
	if end <= a.Seq {
		return nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: a.Seq + 1})
	if err != nil {
		return err
	}
	for a.Seq < end {
		batch, err := c.Fetch(1000, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return err
		}
		before := a.Seq
		for m := range batch.Messages() {
			if err := a.look(m); err != nil {
				return err
			}
		}
		if a.Seq == before {
			return fmt.Errorf("the stream has messages up to %d and delivers none behind %d: %w", end, a.Seq, batch.Error())
		}
	}
	return nil
}

func (a *audit) look(m jetstream.Msg) error {
	meta, err := m.Metadata()
	if err != nil {
		return err
	}
	var key, number int
	if _, err := fmt.Sscanf(m.Headers().Get("ce-id"), "%d-%d", &key, &number); err != nil {
		return err
	}
	a.Seq = meta.Sequence.Stream
	a.arrive(key, number)
	return nil
}

func TestAudit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		arrived [][2]int // key and number
		want    audit    // without Last
	}{
		{"in order", [][2]int{{1, 1}, {2, 1}, {1, 2}, {2, 2}}, audit{}},
		{"again", [][2]int{{1, 1}, {1, 2}, {1, 1}, {1, 2}, {1, 3}}, audit{Again: 2}},
		{"one is missing", [][2]int{{1, 1}, {1, 3}}, audit{Reordered: 1}},
		{"one comes later", [][2]int{{1, 2}, {1, 1}}, audit{Reordered: 1, Again: 1}},
	} {
		a := audit{Last: make(map[int]int)}
		for _, m := range test.arrived {
			a.arrive(m[0], m[1])
		}
		if a.Again != test.want.Again || a.Reordered != test.want.Reordered {
			t.Errorf("%s: %+v, want %+v", test.name, a, test.want)
		}
	}
}
