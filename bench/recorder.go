package main

import (
	"context"
	"fmt"
)

// runRecorder drains backlogs by relays that are recorded and by relays that are not,
// alternately.
func runRecorder(ctx context.Context, b *bench) ([]row, error) {
	list := []contender{
		{name: "relay", note: "shipped defaults, Retention: KeepNothing", job: job{Role: "relay"}},
		{name: "relay, recorded", note: "the same with a Recorder, 64 MiB", job: job{Role: "relay", Record: true}},
	}
	var rows []row
	for _, kind := range []string{toNothing, toNATS} {
		runs, err := b.compete(ctx, list, b.destination(kind), b.postgres)
		if err != nil {
			return rows, fmt.Errorf("%s: %w", kind, err)
		}
		for i, c := range list {
			figures := []figure{
				{name: "messages/s", values: column(runs[i], rate)},
				{name: "CPU-s per 100,000", values: known(column(runs[i], cpu))},
			}
			if i > 0 {
				figures = append(figures, figure{"CPU, of the unrecorded", "%", ratios(known(column(runs[i], cpu)), known(column(runs[0], cpu))), atMost(102)})
			}
			rows = append(rows, row{table: "To " + kind, name: c.name, figures: figures, note: c.note})
		}
	}
	return rows, nil
}
