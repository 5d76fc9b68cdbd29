//go:build race

package e2e

// slowdown widens the bounds that are promised of a relay: the race detector alone makes
// everything several times slower.
const slowdown = 3
