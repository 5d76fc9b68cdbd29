package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/pgstore"
)

// runExplain runs a relay and asks PostgreSQL for the plan of each of its statements about
// messages, with the same values, just before each runs.
func runExplain(ctx context.Context, b *bench) (rows []row, _ error) {
	n := b.size(1_000_000, 20_000)
	for _, s := range []situation{
		{name: "a backlog of " + number(float64(n))},
		{name: number(float64(n)) + " messages in lanes of another relay", foreign: true},
	} {
		err := b.inWorld(ctx, func(w *world) error {
			more, err := w.explain(ctx, s, n)
			rows = append(rows, more...)
			return err
		})
		if err != nil {
			return rows, fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return rows, nil
}

func (w *world) explain(ctx context.Context, s situation, n int) ([]row, error) {
	if err := w.explainBacklog(ctx, s, n); err != nil {
		return nil, err
	}
	e := &explainer{about: aboutMessages, seen: make(map[string]*plan)}
	for _, archive := range []bool{false, true} {
		if err := w.explainRelay(ctx, e, archive); err != nil {
			return nil, err
		}
	}
	var rows []row
	for _, p := range e.list {
		rows = append(rows, p.row(s.name))
	}
	return rows, nil
}

// explainBacklog creates the backlog, next to messages that wait for a retry: for an empty
// table PostgreSQL might choose any plan.
func (w *world) explainBacklog(ctx context.Context, s situation, n int) error {
	if _, err := waitingMessages(ctx, w); err != nil {
		return err
	}
	if !s.foreign {
		if err := w.fill(ctx, n); err != nil {
			return err
		}
		return w.exec(ctx, "VACUUM ANALYZE")
	}
	if err := w.exec(ctx, anotherSQL); err != nil {
		return err
	}
	keys, err := w.keysByOwner(ctx)
	if err != nil {
		return err
	}
	if err := w.fillKeys(ctx, keys.theirs, n); err != nil {
		return err
	}
	if err := w.fillKeys(ctx, keys.ours, w.size(20_000, 4_000)); err != nil {
		return err
	}
	return w.exec(ctx, "VACUUM ANALYZE")
}

// explainRelay runs a relay until it has settled some batches.
func (w *world) explainRelay(ctx context.Context, e *explainer, archive bool) (err error) {
	if e.conn, err = pgx.Connect(ctx, w.url); err != nil {
		return err
	}
	defer func() { _ = e.conn.Close(ctx) }()
	pool, err := openPool(ctx, w.url, 0, e)
	if err != nil {
		return err
	}
	defer pool.Close()
	store, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		return err
	}
	run, stop := context.WithTimeout(ctx, patience)
	defer stop()
	c := &client{job: job{Archive: archive, Messages: explainAfter}, ended: stop}
	r, err := relay.New(store, &nothing{}, c.config())
	if err != nil {
		return err
	}
	if err := r.Run(run); err != nil {
		return err
	}
	if c.settled.Load() < explainAfter {
		return errors.New("the relay has not settled enough messages")
	}
	return e.err
}

// explainAfter is how many messages a relay settles while its statements are explained.
const explainAfter = 1500

// explainer is a tracer that explains statements before they run, on a separate connection
// and in a transaction that is rolled back. For each statement it keeps the plan of the
// largest run.
type explainer struct {
	mu    sync.Mutex
	about *regexp.Regexp // the statements that it explains
	conn  *pgx.Conn
	seen  map[string]*plan
	list  []*plan
	err   error
}

type plan struct {
	sql, text  string
	runs, rows int
}

// enoughRuns is how often a statement is explained.
const enoughRuns = 5

// aboutMessages matches statements that read or delete messages.
var aboutMessages = regexp.MustCompile(`(?i)\b(FROM|UPDATE|JOIN)\s+"waybill"\."(outbox|outbox_waiting)"`)

func (e *explainer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err == nil && e.about.MatchString(data.SQL) {
		e.err = e.explain(context.WithoutCancel(ctx), data)
	}
	return ctx
}

func (e *explainer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (e *explainer) explain(ctx context.Context, data pgx.TraceQueryStartData) error {
	p := e.seen[data.SQL]
	if p == nil {
		p = &plan{sql: data.SQL}
		e.seen[data.SQL] = p
		e.list = append(e.list, p)
	}
	if p.runs++; p.runs > enoughRuns {
		return nil
	}
	tx, err := e.conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	rows, err := tx.Query(ctx, "EXPLAIN (ANALYZE, BUFFERS) "+data.SQL, data.Args...)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("explain %.40s …: %w", strings.TrimSpace(data.SQL), err)
	}
	if text := strings.Join(lines, "\n"); p.text == "" || planRows(text) > p.rows {
		p.text, p.rows = text, planRows(text)
	}
	return nil
}

var (
	actualRows = regexp.MustCompile(`actual time=[0-9.]+\.\.[0-9.]+ rows=([0-9.]+)`)
	buffers    = regexp.MustCompile(`(?:hit|read)=(\d+)`)
	otherScan  = regexp.MustCompile(`(?:Seq|Bitmap Heap) Scan on outbox(?:_waiting|_archive\w*)? |Seq Scan on scheduled `) // the sequence's only row is read as it is
)

// planRows is the most rows that a node of the plan has returned at once.
func planRows(text string) int {
	most := 0.0
	for _, m := range actualRows.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		most = max(most, n)
	}
	return int(most)
}

// planBuffers is the largest number of pages that a node has read, including the nodes below
// it. That need not be the topmost: what a WITH deletes is not counted there.
func planBuffers(text string) int {
	text, _, _ = strings.Cut(text, "\nPlanning")
	most := 0
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "Buffers: shared") {
			continue
		}
		sum := 0
		for _, m := range buffers.FindAllStringSubmatch(line, -1) {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
		most = max(most, sum)
	}
	return most
}

func (p *plan) row(situation string) row {
	return row{table: "With " + situation, name: p.name(), text: p.text, figures: []figure{
		{"scans of outbox tables not by index", "", []float64{float64(len(otherScan.FindAllString(p.text, -1)))}, atMost(0)},
		{name: "rows of the largest node", values: []float64{float64(p.rows)}},
		{name: "buffers of the largest node", values: []float64{float64(planBuffers(p.text))}},
	}}
}

// name describes what a statement does.
func (p *plan) name() string {
	has := func(text string) bool { return strings.Contains(p.sql, text) }
	switch {
	case has(`DELETE FROM "waybill"."outbox" `) && has(`INSERT INTO "waybill"."outbox_archive"`):
		return "settle, to the archive"
	case has(`DELETE FROM "waybill"."outbox" `):
		return "settle"
	case has(`DELETE FROM "waybill"."outbox_waiting"`):
		return "settle, waiting messages"
	case has(`DELETE FROM "waybill"."scheduled"`):
		return "release scheduled messages"
	case has(`FROM "waybill"."scheduled"`):
		return "look for scheduled messages that are due"
	case has(`FROM "waybill"."outbox" `):
		return "claim"
	}
	return "claim, waiting messages"
}
