// Package sagatest tests the engine of package saga on the store in memory, with everything that
// package waybilltest can do to it. It has nothing but tests.
package sagatest
