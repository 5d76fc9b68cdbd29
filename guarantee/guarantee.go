// Package guarantee lets stores and brokers state what they guarantee: fact by fact, each with the
// setting that it depends on.
package guarantee

// Fact is one setting, or one property that nothing can change, and what it means for a message.
type Fact struct {
	About   Aspect
	Setting string // as the server's manual calls it: "sync_interval". "" for a property
	Value   string // as reported by the server. "": not reported
	Means   string // one sentence for an operator

	// Survives is what a confirmed message survives under this setting. For facts about
	// [Durability] only.
	Survives Survives

	// Stronger is the setting that would strengthen it: "sync_interval: always". "": nothing would.
	Stronger string
}

// Aspect is what a fact is about.
type Aspect string

// The aspects, in the order in which they are shown.
const (
	Durability Aspect = "durability"
	Order      Aspect = "order"
	Duplicates Aspect = "duplicates"
	Size       Aspect = "size"
	Delay      Aspect = "delay"
)

// Survives is what a confirmed message survives, from least to most.
type Survives int

const (
	Unknown      Survives = iota // the server does not report it
	Nothing                      // it is only in the memory of a process
	ProcessCrash                 // the server's process may be killed
	PowerLoss                    // its machine may lose power
	NodeLoss                     // its machine may be lost for good
)
