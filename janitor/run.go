package janitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/internal/loop"
	"github.com/waybill-go/waybill/observe"
)

const (
	// cleanupRetry is how soon a clean-up that met a lock is repeated.
	cleanupRetry = time.Minute

	// foldInterval is how old the counts of dead letters may be.
	foldInterval = 5 * time.Second

	// patience is the least time after which a clean-up that does not succeed is reported by
	// Health: the first one of a large store takes a while.
	patience = time.Hour
)

// Janitor cleans up one store. It is safe for concurrent use.
type Janitor struct {
	store    Store
	archiver Archiver // nil if the archive is left to the relays
	folder   folder   // nil if the store has no roll-up
	cfg      Config
	running  atomic.Bool
	cleaning *loop.Loop
	folding  *loop.Loop
}

// New returns a janitor for store. The error is an [*waybill.InvalidError] that names what is
// missing or wrong.
func New(store Store, cfg Config) (*Janitor, error) {
	if store == nil {
		return nil, &waybill.InvalidError{Field: "store", Reason: "is required"}
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	j := &Janitor{
		store: store, cfg: cfg,
		cleaning: &loop.Loop{Name: "janitor", Observer: cfg.Observer},
		folding:  &loop.Loop{Name: "janitor fold", Observer: cfg.Observer},
	}
	j.folder, _ = store.(folder)
	if cfg.OutboxRetention > 0 {
		var ok bool
		if j.archiver, ok = store.(Archiver); !ok {
			return nil, invalid("OutboxRetention", "is %v, but the store has no archive", cfg.OutboxRetention)
		}
	}
	return j, nil
}

// Run cleans up until ctx is done, at once and then every CleanupInterval, and keeps the counts of
// dead letters fresh. A store that does not answer is waited for. It then returns nil. A
// janitor runs once at a time; a second Run returns an error.
func (j *Janitor) Run(ctx context.Context) error {
	if !j.running.CompareAndSwap(false, true) {
		return errors.New("janitor: is running already")
	}
	defer j.running.Store(false)
	var loops sync.WaitGroup
	if !j.cfg.DisableCleanup {
		loops.Go(func() { j.cleaning.Run(ctx, j.cleanRound) })
	}
	if j.folder != nil {
		loops.Go(func() { j.folding.Run(ctx, j.foldRound) })
	}
	loops.Wait()
	<-ctx.Done()
	return nil
}

func (j *Janitor) cleanRound(ctx context.Context) error {
	_, err := j.Clean(ctx)
	wait := j.cfg.CleanupInterval
	if waybill.IsConflict(err) { // observed; another session holds a lock for long
		wait, err = min(wait, cleanupRetry), nil
	}
	if err == nil {
		loop.Sleep(ctx, spread(wait))
	}
	return err
}

// spread adds jitter, so that janitors that were started together do not run at the same time.
func spread(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.2*rand.Float64()))
}

func (j *Janitor) foldRound(ctx context.Context) error {
	folding, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := j.folder.FoldDeadLetters(folding)
	if err == nil {
		loop.Sleep(ctx, foldInterval)
	}
	return err
}

// Report is what a clean-up did with one kind of rows.
type Report struct {
	Rows      Kind
	OlderThan time.Duration
	Purged
	Days int // of the archive, dropped as a whole, in addition to the rows
}

// Clean cleans up once and returns a report for each kind of rows. If a kind fails the others are
// still cleaned up; the error joins what went wrong.
func (j *Janitor) Clean(ctx context.Context) ([]Report, error) {
	var reports []Report
	var errs []error
	for _, rows := range j.rows() {
		began := time.Now()
		done, err := Purge(ctx, j.store, rows, j.cfg.CleanupBatchSize)
		reports, errs = append(reports, Report{Rows: rows.Kind, OlderThan: rows.OlderThan, Purged: done}), append(errs, of(rows.Kind, err))
		j.observe(ctx, reports[len(reports)-1], time.Since(began), err)
	}
	if j.archiver != nil {
		began := time.Now()
		report, err := j.maintainArchive(ctx)
		reports, errs = append(reports, report), append(errs, of(Archive, err))
		j.observe(ctx, report, time.Since(began), err)
	}
	return reports, join(errs)
}

// Preview counts what [Janitor.Clean] would remove, and removes nothing. The archive is not
// counted, because its days are dropped without being read.
func (j *Janitor) Preview(ctx context.Context) ([]Report, error) {
	var reports []Report
	for _, rows := range j.rows() {
		found, err := Count(ctx, j.store, rows)
		if err != nil {
			return nil, of(rows.Kind, err)
		}
		reports = append(reports, Report{Rows: rows.Kind, OlderThan: rows.OlderThan, Purged: found})
	}
	return reports, nil
}

func (j *Janitor) rows() []Rows {
	return []Rows{
		{Kind: Inbox, OlderThan: j.cfg.InboxRetention},
		{Kind: Attempts, OlderThan: j.cfg.InboxRetention},
		{Kind: Leases, OlderThan: j.cfg.LeaseRetention},
		{Kind: Letters, OlderThan: j.cfg.DeadLetterRetention},
		{Kind: Sagas, OlderThan: j.cfg.SagaRetention},
		{Kind: Audit, OlderThan: j.cfg.AuditRetention},
		{Kind: Responses, OlderThan: expiredFor},
	}
}

func (j *Janitor) maintainArchive(ctx context.Context) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	done, err := j.archiver.MaintainArchive(ctx, contract.MaintainRequest{Retention: j.cfg.OutboxRetention, BatchSize: j.cfg.CleanupBatchSize})
	return Report{
		Rows: Archive, OlderThan: j.cfg.OutboxRetention, Days: done.Dropped,
		Purged: Purged{Candidates: done.Rows, Deleted: done.Rows, Busy: done.Busy},
	}, err
}

// observe reports what was removed, and a lock that was in the way; the loop reports other errors.
func (j *Janitor) observe(ctx context.Context, r Report, took time.Duration, err error) {
	if !waybill.IsConflict(err) {
		err = nil
	}
	if r.Deleted > 0 || err != nil {
		j.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpCleanup, Name: string(r.Rows), Count: int(r.Deleted), Duration: took, Err: err})
	}
	if r.Days > 0 {
		j.cfg.Observer.Observe(ctx, observe.Event{Op: observe.OpDropPartitions, Name: string(r.Rows), Count: r.Days})
	}
}

// of says what an error is about.
func of(kind Kind, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("clean up %s: %w", kind, err)
}

// join joins errors, without conflicts if there are others: conflicts have been observed, and would
// hide that something is wrong.
func join(errs []error) error {
	others := slices.DeleteFunc(slices.Clone(errs), waybill.IsConflict)
	return cmp.Or(errors.Join(others...), errors.Join(errs...))
}

// Health returns nil while the janitor works, and the reason otherwise.
func (j *Janitor) Health() error {
	var errs []error
	if !j.cfg.DisableCleanup {
		errs = append(errs, j.cleaning.Health(max(3*j.cfg.CleanupInterval, patience)))
	}
	if j.folder != nil {
		errs = append(errs, j.folding.Health(max(12*foldInterval, time.Minute)))
	}
	return errors.Join(errs...)
}
