// Package interleave runs a few sessions against a real database server in every order of their steps.
//
// A session is ordinary code with a connection of its own through a [Gate]. A step is one request to the
// server: the gate holds it until the session has its turn. So the code that runs is the code of the
// stores, as it is, and a step is what the server sees of it. A session whose step waits for a lock of
// another one is found by asking the server, not by a time limit; it goes on when the server lets it.
//
// [Explore] runs a scenario once for each order: it makes the same choices again as in the run before, up
// to the last one that can be made otherwise. What it visits is complete for steps that answer the same
// whenever they run between the same steps of others. The times at which a statement reads its rows while
// another statement runs are not visited: one that does not wait runs without any other beside it. This is
// also how PostgreSQL's own isolation tester sees sessions (src/test/isolation).
package interleave
