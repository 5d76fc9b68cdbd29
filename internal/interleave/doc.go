// Package interleave runs a few sessions against a real database server in every order of their steps.
//
// A session is ordinary code with its own connection through a [Gate]. A step is one request to the
// server: the gate holds it until it is the session's turn. So the code that runs is the unchanged code of
// the stores, and a step is what the server sees of it. A session whose step waits for a lock of another
// one is found by asking the server, not by a time limit; it continues when the server lets it.
//
// [Explore] runs a scenario once for each order: it repeats the choices of the previous run, up to the
// last one that can be made differently. What it visits is complete for steps that answer the same
// whenever they run between the same steps of others. The times at which a statement reads its rows while
// another statement runs are not visited: a statement that does not wait runs without any concurrent one.
// This is also how PostgreSQL's own isolation tester sees sessions (src/test/isolation).
package interleave
