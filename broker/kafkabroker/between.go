package kafkabroker

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// betweenTimeout bounds the question what stands between two offsets.
const betweenTimeout = 10 * time.Second

// hasMessages reports whether a partition holds messages from offset from up to, and without, offset to: what only
// ends a transaction is none. It is true if the cluster does not tell in time, or has dropped what was there. The
// error is that of ctx.
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

// tells reports whether there is a message before offset to in records, and whether they tell.
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
