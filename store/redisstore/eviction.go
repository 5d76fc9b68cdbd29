package redisstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// NoEviction is the policy under which Redis refuses writes when its memory is full, and forgets
// nothing.
const NoEviction = "noeviction"

// EvictionPolicy returns the server's maxmemory-policy; of a Cluster, that of a master which has
// another one than [NoEviction], if there is one. With any other than [NoEviction] Redis may drop
// keys before their retention has passed once its memory is full, the volatile policies included
// because all keys here expire: what they stood for is processed again. It returns "" for a
// server that does not say.
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return evictionPolicy(ctx, s.client)
	}
	var mu sync.Mutex // the masters are asked concurrently
	var found string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		policy, err := evictionPolicy(ctx, master)
		mu.Lock()
		defer mu.Unlock()
		if found == "" || policy != NoEviction {
			found = policy
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the eviction policy of a Cluster: %w", classify(err))
	}
	return found, nil
}

// evictionPolicy reads INFO, which is allowed where CONFIG is not.
func evictionPolicy(ctx context.Context, client redis.Cmdable) (string, error) {
	info, err := client.Info(ctx, "memory").Result()
	if err != nil {
		return "", fmt.Errorf("read the eviction policy: %w", classify(err))
	}
	for line := range strings.Lines(info) {
		if policy, ok := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); ok {
			return policy, nil
		}
	}
	return "", nil
}
