package redisbroker

import (
	"context"
	"strconv"
	"strings"

	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/guarantee"
)

var _ broker.Explainer = (*Broker)(nil)

// Explain implements [broker.Explainer]. It reads the settings of one server, in a Cluster those
// of any node. Settings that a user without the right to CONFIG GET may not read have no value.
func (b *Broker) Explain(ctx context.Context, _ string) ([]guarantee.Fact, error) {
	if err := b.ready(ctx); err != nil {
		return nil, err
	}
	settings := make(map[string]string)
	for _, name := range []string{"appendonly", "appendfsync", "maxmemory-policy"} {
		values, err := b.client.ConfigGet(ctx, name).Result()
		if failed(err) {
			return nil, classify("read the settings", err)
		}
		settings[name] = values[name] // "" where CONFIG is refused
	}
	facts := append(persistence(settings["appendonly"], settings["appendfsync"]),
		eviction(settings["maxmemory-policy"]), b.replication())
	return append(facts, b.properties()...), nil
}

// persistence returns what a confirmation survives on one server.
func persistence(appendonly, appendfsync string) []guarantee.Fact {
	file := guarantee.Fact{About: guarantee.Durability, Setting: "appendonly", Value: appendonly}
	switch appendonly {
	case "yes":
		file.Survives, file.Means = guarantee.PowerLoss, "what is confirmed is in the file that is read at the next start, as far as appendfsync has it there"
	case "":
		file.Means = "the server does not tell whether it writes what is confirmed to a file"
	default:
		file.Survives, file.Means = guarantee.Nothing, "a restart loses what was confirmed since the last snapshot"
		file.Stronger = "appendonly: yes"
		return []guarantee.Fact{file}
	}
	sync := guarantee.Fact{About: guarantee.Durability, Setting: "appendfsync", Value: appendfsync, Stronger: "appendfsync: always"}
	switch appendfsync {
	case "always":
		sync.Survives, sync.Stronger, sync.Means = guarantee.PowerLoss, "", "what is confirmed is on disk"
	case "everysec":
		sync.Survives, sync.Means = guarantee.ProcessCrash, "a loss of power takes the last second, or two, of what was confirmed"
	case "no":
		sync.Survives, sync.Means = guarantee.ProcessCrash, "a loss of power takes what the operating system had not written, half a minute or so"
	default:
		sync.Means = "the server does not tell how often it waits for its disk"
	}
	return []guarantee.Fact{file, sync}
}

// eviction returns what happens to streams when the memory is full. They have no TTL, so only the
// policies for all keys remove them.
func eviction(policy string) guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "maxmemory-policy", Value: policy}
	switch {
	case policy == "":
		f.Means = "the server does not tell whether it removes streams when its memory is full"
	case strings.HasPrefix(policy, "allkeys-"):
		f.Survives, f.Means = guarantee.Nothing, "when the memory is full, whole streams are removed with all that waits in them"
		f.Stronger = "maxmemory-policy: noeviction"
	default:
		f.Survives, f.Means = guarantee.NodeLoss, "when the memory is full, messages are refused and wait in the outbox; no stream is removed"
	}
	return f
}

func (b *Broker) replication() guarantee.Fact {
	f := guarantee.Fact{About: guarantee.Durability, Setting: "redisbroker.Config.Replicas", Value: strconv.Itoa(b.cfg.Replicas)}
	if b.cfg.Replicas > 0 {
		f.Survives, f.Means = guarantee.NodeLoss, "the number of replicas that have what is confirmed; a failover that promotes another one loses it anyway"
		return f
	}
	f.Survives, f.Means = guarantee.PowerLoss, "a failover loses what the replica had not received"
	f.Stronger = "redisbroker.Config.Replicas: 1"
	return f
}

// properties are the facts that no setting of the server changes.
func (b *Broker) properties() []guarantee.Fact {
	return []guarantee.Fact{
		{About: guarantee.Order, Means: "a group with one replica receives in the order of publishing; several replicas share the messages without regard to keys, and a retried message comes later"},
		{About: guarantee.Duplicates, Means: "a message that is published twice is two; an inbox sees to it"},
		{About: guarantee.Size, Setting: "redisbroker.Config.MaxPayload", Value: strconv.Itoa(b.cfg.MaxPayload), Means: "a larger payload, in bytes, is refused for good"},
		{About: guarantee.Delay, Means: "a retry waits on the server for any time, and comes up to half a second late"},
	}
}
