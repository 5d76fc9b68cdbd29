// Package inspect holds what operators read of a store: where messages are, what consumers have done with them,
// which relays are alive. Stores implement its interfaces; the program waybill and package dashboard call them, and
// so may a program of yours, on the store that it uses.
//
// Dead letters, schedules and sagas are read by the packages that are about them.
package inspect
