// Package sagatest tests the engine of package saga on the in-memory store, with all faults of
// package waybilltest. It contains only tests.
package sagatest
