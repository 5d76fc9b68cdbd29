//go:build !race

package e2e

// slowdown widens the bounds that are promised of a relay: not at all in a plain build.
const slowdown = 1
