package main

import (
	"errors"
	"testing"
)

// TestSeeds: no promise is broken in simulated systems of many kinds. Which seed breaks one is printed,
// with the command that shows how.
func TestSeeds(t *testing.T) {
	t.Parallel()
	total, seen, failed, err := runSeeds(0, 10_000)
	if err != nil {
		t.Fatalf("seed %d: %v\nsee it with: go run ./internal/sim -seed %d", failed, err, failed)
	}
	if total.dead == 0 || total.crashes == 0 || total.takeovers == 0 || total.sends <= total.messages || total.effects == 0 || total.skipped == 0 || seen.count() < 100_000 {
		t.Errorf("%+v, %d states: faults of some kind do not happen", total, seen.count())
	}
}

// TestSeeds_Repeat: a seed gives the same run each time.
func TestSeeds_Repeat(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		var runs [2]figures
		for i := range runs {
			w := newWorld(planOf(seed), nil)
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

// TestShrink: a failing plan is made smaller, and still fails. The broken promise is a bound that no run
// keeps.
func TestShrink(t *testing.T) {
	t.Parallel()
	p := planOf(5)
	fails := func(p plan) error {
		if p.Messages > 2 && p.Lanes > 1 {
			return errLost
		}
		return nil
	}
	p.Lanes, p.Messages = 4, 40
	got, err := shrink(p, fails, shrinkSeeds)
	if err == nil || got.Messages != 3 || got.Lanes != 2 || got.Relays != 1 || got.Faults != 0 || got.Batch != 1 {
		t.Errorf("shrink() = %+v, %v, want three messages in two lanes and nothing else", got, err)
	}
}

// TestShrink_SamePromise: a smaller plan that breaks another promise explains nothing.
func TestShrink_SamePromise(t *testing.T) {
	t.Parallel()
	first := errors.New("at 1s: m7@ is sent before m3")
	run := func(p plan) error {
		switch {
		case p.Messages < 20:
			return errors.New("at 3s: m7@ is lost")
		case p.Lanes < 2:
			return nil
		}
		return first
	}
	p := plan{Seed: 5, Lanes: 4, Messages: 40, Relays: 1, Batch: 1}
	got, err := shrink(p, run, shrinkSeeds)
	if !errors.Is(err, first) || got.Messages != 20 || got.Lanes != 2 {
		t.Errorf("shrink() = %+v, %v, want twenty messages in two lanes", got, err)
	}
}

// TestSketch: the number of different states is estimated to within a few percent.
func TestSketch(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10, 1000, 50_000, 1_000_000} {
		s := newSketch()
		for i := range 2 * n {
			s.add(mix(uint64(i%n) + 0x9e3779b97f4a7c15))
		}
		if got := s.count(); got < n*94/100 || got > n*106/100 {
			t.Errorf("count() = %d of %d", got, n)
		}
	}
}
