// Command sim runs simulated systems of relays, one for each seed, and stops at the first that breaks a
// promise, which it shrinks for as long as it still fails. The decisions are those of real relays
// (internal/relaycore); store, broker and consumers are models, with one clock and one source of chance.
//
//	go run ./internal/sim -seeds 1000000
//	go run ./internal/sim -seed 42 -v
//	go run ./internal/sim -explore -faults 1
//
// When the faults have ended everything must drain within
//
//	1 min + (8 + 2 × lanes) × lease + 1 s × messages + 1 min × rate of faults + as far as the store's clock went back
//
// of simulated time: a relay may be paused or absent for 40 s more, and the wait for a confirm may take 15
// times half a lease; a lease ends, and each lane may change hands once more; each message may have final
// attempts, one after the other of its key, and so may its consumers; the more faults, the longer a message
// waits for its retry, and what waits by a clock that goes back waits longer by that amount.
//
// With -explore every state of small systems is visited once; docs/proof.md says what that covers.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	seeds := flag.Uint64("seeds", 10_000, "how many seeds are run")
	first := flag.Uint64("seed", 0, "the first seed; with -v it is the only one")
	verbose := flag.Bool("v", false, "print what happens")
	planned := flag.String("plan", "", "run this plan, as a failing seed prints it")
	shrunk := flag.Bool("shrink", true, "look for a smaller run that fails, too")
	search := flag.Bool("explore", false, "visit every state of small systems instead")
	faults := flag.Int("faults", 2, "with -explore, the most faults of a system")
	limit := flag.Int("limit", 5_000_000, "with -explore, the most states of a system")
	system := flag.String("system", "", "with -explore, only the systems that have this in their names")
	flag.Parse()
	if *search {
		exploreAll(*system, *faults, *limit)
		return
	}
	if *verbose || *planned != "" {
		p := planOf(*first)
		if err := json.Unmarshal([]byte(cmp.Or(*planned, "{}")), &p); err != nil {
			fmt.Println(err)
			os.Exit(2)
		}
		if err := newWorld(p, os.Stdout).run(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	total, seen, failed, err := runSeeds(*first, *seeds)
	if err != nil {
		fmt.Printf("seed %d: %v\nsee it with: go run ./internal/sim -seed %d -v\n", failed, err, failed)
		if *shrunk {
			p, err := shrink(planOf(failed), runPlan, shrinkSeeds)
			text, _ := json.Marshal(p)
			fmt.Printf("the smallest that fails, too: %v\nsee it with: go run ./internal/sim -plan '%s'\n", err, text)
			_ = newWorld(p, os.Stdout).run() // the same error
		}
		os.Exit(1)
	}
	fmt.Printf("%d seeds: %d messages, %d sends, %d dead letters, %d crashes, %d take-overs, %d effects, %d copies skipped, %d events, about %d different states, drained within %v; no promise broken\n",
		*seeds, total.messages, total.sends, total.dead, total.crashes, total.takeovers, total.effects, total.skipped, total.events, seen.count(), total.drained.Round(time.Second))
}

// tally is the result of runs.
type tally struct {
	total  figures
	seen   *sketch
	failed uint64 // the first seed that breaks a promise
	err    error
}

// runSeeds runs seeds concurrently until one fails. Which of them is reported does not depend on timing:
// each worker takes the next seed, and the first one that fails is reported.
func runSeeds(first, count uint64) (figures, *sketch, uint64, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(800)) // runs produce much garbage, and hold little
	var next, end atomic.Uint64
	next.Store(first)
	end.Store(first + count)
	tallies := make([]tally, runtime.GOMAXPROCS(0))
	var group sync.WaitGroup
	for i := range tallies {
		t := &tallies[i]
		t.seen = newSketch()
		group.Go(func() {
			for seed := next.Add(1) - 1; seed < end.Load() && t.err == nil; seed = next.Add(1) - 1 {
				w := newWorld(planOf(seed), nil)
				if t.err = w.run(); t.err != nil {
					t.failed = seed
					end.Store(min(end.Load(), seed))
					return
				}
				t.total.add(w.figures)
				t.seen.join(w.seen)
			}
		})
	}
	group.Wait()
	all := tallies[0]
	for _, t := range tallies[1:] {
		all.total.add(t.total)
		all.seen.join(t.seen)
		if t.err != nil && (all.err == nil || t.failed < all.failed) {
			all.failed, all.err = t.failed, t.err
		}
	}
	return all.total, all.seen, all.failed, all.err
}

// exploreAll explores the requested small systems with no fault, one, and so on.
func exploreAll(named string, faults, limit int) {
	kept := true
	for n := range faults + 1 {
		for _, p := range smalls(n) {
			if !strings.Contains(p.name, named) {
				continue
			}
			found := explore(p, limit)
			kept = found.report(os.Stdout, p) && kept
		}
	}
	if !kept {
		os.Exit(1)
	}
}
