package kafkabroker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// betweenTimeout bounds the check for messages between two offsets.
const betweenTimeout = 10 * time.Second

// hasMessages reports whether a partition holds messages from offset from up to, and without, offset to: the end
// of a transaction is not a message. It is true if the cluster does not answer in time, or has dropped what was
// there. The error is that of ctx.
func (b *Broker) hasMessages(ctx context.Context, at place, from, to int64) (bool, error) {
	client, err := kgo.NewClient(b.cfg.options(
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{at.topic: {at.partition: kgo.NewOffset().At(from)}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(fetchWait),
		kgo.KeepControlRecords(),
	)...)
	if err != nil {
		return false, invalidf("Options", "are refused by the client library: %v", err)
	}
	defer client.Close()
	asking, cancel := context.WithTimeout(ctx, betweenTimeout)
	defer cancel()
	for {
		fetches := client.PollFetches(asking)
		if len(fetches.Errors()) > 0 {
			return true, ctx.Err()
		}
		if has, told := tells(fetches.Records(), to); told {
			return has, nil
		}
	}
}

// tells reports whether records hold a message before offset to, and whether they suffice to tell.
func tells(records []*kgo.Record, to int64) (has, told bool) {
	for _, r := range records {
		switch {
		case r.Offset >= to:
			return false, true
		case !r.Attrs.IsControl():
			return true, true
		case r.Offset == to-1:
			return false, true
		}
	}
	return false, false
}
