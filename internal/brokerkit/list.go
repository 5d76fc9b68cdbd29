package brokerkit

import (
	"slices"

	"github.com/waybill-go/waybill/consumer"
)

// Unique keeps of list the first element with each key.
func Unique[T any, K comparable](list []T, key func(T) K) []T {
	seen := make(map[K]bool)
	return slices.DeleteFunc(list, func(v T) bool {
		k := key(v)
		again := seen[k]
		seen[k] = true
		return again
	})
}

// Lag is the sum of what count returns for each of the places that a subscription receives from.
func Lag[P any](places []P, count func(P) (int64, error)) (consumer.Lag, error) {
	var lag consumer.Lag
	for _, p := range places {
		n, err := count(p)
		if err != nil {
			return consumer.Lag{}, err
		}
		lag.Messages += n
	}
	return lag, nil
}
