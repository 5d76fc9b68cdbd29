package redisbroker

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// nodePart is the part of a pipeline for one node, in order.
type nodePart struct {
	client redis.Cmdable
	list   []*outgoing
	err    error // the node is not known
}

// byNode divides a pipeline among the nodes of a Cluster. The client library could do so itself, but it repeats
// unanswered commands on another connection.
func (b *Broker) byNode(ctx context.Context, list []*outgoing) []nodePart {
	cluster, ok := b.client.(*redis.ClusterClient)
	if !ok {
		return []nodePart{{client: b.client, list: list}}
	}
	var parts []nodePart
	index := make(map[*redis.Client]int)
	for _, o := range list {
		node, err := cluster.MasterForKey(ctx, o.stream)
		if err != nil {
			return []nodePart{{err: err}}
		}
		i, known := index[node]
		if !known {
			i = len(parts)
			index[node] = i
			parts = append(parts, nodePart{client: node})
		}
		parts[i].list = append(parts[i].list, o)
	}
	return parts
}

// lookAgain asks which node has which slots, after one has not answered, has said that it no longer has them, or that
// it has lost the others, which may have replaced it: the client library would send to it for ten seconds more.
func (b *Broker) lookAgain(ctx context.Context, err error) {
	cluster, ok := b.client.(*redis.ClusterClient)
	if ok && (failed(err) || slices.ContainsFunc([]string{"MOVED", "ASK", "CLUSTERDOWN"}, func(p string) bool { return redis.HasErrorPrefix(err, p) })) {
		cluster.ReloadState(ctx)
	}
}
