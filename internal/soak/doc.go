// Package soak runs two whole systems for hours, PostgreSQL with RabbitMQ and MariaDB with NATS, and interrupts
// everything in them: producers, relays, consumers, databases and brokers are killed, frozen and restarted, and
// connections are cut and refused. What was committed and what came of it is judged from two tables alone: the
// orders that producers have written with their messages, and the effects of these.
//
// "make long-soak DIR=… MESSAGES=…" runs it, on servers of its own. It may be stopped at any time; the same command
// goes on where it has stopped. Without it, tests run the judgement only.
//
// The stories of a Galera cluster of MariaDB are here, too: "make clusters" runs them.
package soak
