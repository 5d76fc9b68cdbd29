package main

import "testing"

// TestSeeds: no promise is broken in simulated systems of many kinds. Which seed breaks one is printed,
// with the command that shows how.
func TestSeeds(t *testing.T) {
	t.Parallel()
	const seeds = 2000
	var total figures
	for seed := range uint64(seeds) {
		w := newWorld(seed, nil)
		if err := w.run(); err != nil {
			t.Fatalf("seed %d: %v\nsee it with: go run ./internal/sim -seed %d -v", seed, err, seed)
		}
		total.add(w.figures)
	}
	if total.dead == 0 || total.crashes == 0 || total.takeovers == 0 || total.sends <= total.messages {
		t.Errorf("%+v: faults of some kind do not happen", total)
	}
}

// TestSeeds_Repeat: a seed gives the same run each time.
func TestSeeds_Repeat(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		var runs [2]figures
		for i := range runs {
			w := newWorld(seed, nil)
			if err := w.run(); err != nil {
				t.Fatal(err)
			}
			runs[i] = w.figures
		}
		if runs[0] != runs[1] {
			t.Fatalf("seed %d: %+v, then %+v", seed, runs[0], runs[1])
		}
	}
}
