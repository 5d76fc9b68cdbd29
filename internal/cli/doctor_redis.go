package cli

import (
	"context"
	"errors"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/store/redisstore"
)

// checkRedis checks a Redis that keeps leases for the inbox service. The error is about the
// configuration.
func (e examination) checkRedis(ctx context.Context) ([]finding, error) {
	leases, err := opener.OpenLeases(ctx, opener.LeaseConfig{StoreConfig: e.store})
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{unreadable(storeSubject, err.Error(), "start it, or correct --store")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer leases.Close()
	return []finding{passing(storeSubject, "Redis at "+leases.Address+", for leases"), checkEviction(leases.Eviction)}, nil
}

// checkEviction judges what Redis does when its memory is full.
func checkEviction(policy string) finding {
	switch policy {
	case redisstore.NoEviction:
		return passing("eviction", "maxmemory-policy is "+policy+": a full memory refuses, and forgets nothing")
	case "":
		return noting("eviction", "the server does not say its maxmemory-policy", "see that it is "+redisstore.NoEviction)
	}
	return warning("eviction", "maxmemory-policy is "+policy+": when the memory is full keys are forgotten, and processed again",
		"run CONFIG SET maxmemory-policy "+redisstore.NoEviction+", and set it in redis.conf")
}
