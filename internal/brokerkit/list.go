package brokerkit

import (
	"slices"

	"github.com/waybill-go/waybill/contract"
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
func Lag[P any](places []P, count func(P) (int64, error)) (contract.Lag, error) {
	var lag contract.Lag
	for _, p := range places {
		n, err := count(p)
		if err != nil {
			return contract.Lag{}, err
		}
		lag.Messages += n
	}
	return lag, nil
}
