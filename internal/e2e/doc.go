// Package e2e holds whole-system stories: real PostgreSQL, real brokers, and child processes
// that are killed for real. Each acceptance scenario is a test under its own number.
package e2e
