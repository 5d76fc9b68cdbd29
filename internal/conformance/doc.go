// Package conformance runs every store and every broker through the suite of its contract,
// against real servers, and adds the faults that are a single adapter's own.
package conformance
