package cli

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/janitor"
	"github.com/waybill-go/waybill/observe"
)

func (p *program) janitorCommand() *cobra.Command {
	var once, dryRun bool
	cmd := &cobra.Command{
		Use:   "janitor",
		Short: "Remove what is past its retention",
		Long: `Remove inbox records, attempts at messages that never came back, keys of the lease contract, dead
letters, sagas that have ended, entries of the audit log and published messages that are past their
retention, until SIGINT or SIGTERM, every cleanup.interval. Relays and consumers do so themselves unless
cleanup.enabled is false; of several that are at it one does the work.

Never removed is what is still needed: messages that are not published, keys that somebody has
leased, dead letters that are pending again or that messages wait behind, the inbox records of
dead letters, and sagas that have not ended.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			return p.janitor(cmd, once, dryRun)
		}),
	}
	cmd.Flags().BoolVar(&once, "once", false, "clean up once, and say what was removed")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "count what would be removed, but for the archive, and remove nothing")
	return cmd
}

// janitorConfig turns options into the janitor's configuration. The archive is the relay's.
func janitorConfig(cfg *config.Config) janitor.Config {
	return janitor.Config{
		InboxRetention:      cfg.Duration("inbox.retention"),
		LeaseRetention:      cfg.Duration("inbox.retention"),
		DeadLetterRetention: cfg.Duration("dead_letter.retention"),
		SagaRetention:       cfg.Duration("saga.retention"),
		AuditRetention:      cfg.Duration("audit.retention"),
		CleanupInterval:     cfg.Duration("cleanup.interval"),
		CleanupBatchSize:    cfg.Int("cleanup.batch_size"),
		DisableCleanup:      !cfg.Bool("cleanup.enabled"),
	}
}

func (p *program) janitor(cmd *cobra.Command, once, dryRun bool) error {
	store, cfg, err := p.openStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := checkSchema(cmd.Context(), store); err != nil {
		return err
	}
	c := janitorConfig(cfg)
	c.OutboxRetention, c.DisableCleanup = cfg.Duration("outbox.retention"), false // it was requested
	logger := p.logger(cfg)
	if c.Observer = observe.LogTo(logger); once || dryRun {
		c.Observer = observe.LogTo(slog.New(slog.DiscardHandler)) // the table says it
	}
	j, err := janitor.New(store, c)
	if err != nil {
		return err
	}
	if dryRun {
		reports, err := j.Preview(cmd.Context())
		if err != nil {
			return err
		}
		return p.printExpired(reports)
	}
	if r, _ := retentionOf(cmd.Context(), cfg); r.Check() != nil && !cfg.Bool("inbox.allow_short_retention") {
		return usagef("inbox.retention %v; --inbox-allow-short-retention accepts it anyway", r.Check())
	}
	if once {
		reports, err := j.Clean(cmd.Context())
		if printErr := p.printReports(reports); err == nil {
			err = printErr
		}
		return err
	}
	logger.Info("janitor is running", "store", store.Address())
	err = j.Run(cmd.Context())
	logger.Info("janitor has stopped")
	return err
}

// reportRow is a [janitor.Report] for programs.
type reportRow struct {
	Rows       janitor.Kind `json:"rows"`
	OlderThan  string       `json:"older_than"`
	Candidates int64        `json:"candidates"`
	Deleted    int64        `json:"deleted"`
	Batches    int          `json:"batches"`
	Days       int          `json:"days,omitempty"`
	Busy       bool         `json:"busy,omitempty"`
}

func (p *program) printReportsJSON(reports []janitor.Report) error {
	rows := make([]reportRow, len(reports))
	for i, r := range reports {
		rows[i] = reportRow{r.Rows, ops.Age(r.OlderThan), r.Candidates, r.Deleted, r.Batches, r.Days, r.Busy}
	}
	return p.printJSON(rows)
}

func (p *program) printExpired(reports []janitor.Report) error {
	if p.json {
		return p.printReportsJSON(reports)
	}
	rows := make([][]string, len(reports))
	for i, r := range reports {
		rows[i] = []string{string(r.Rows), ops.Age(r.OlderThan), ops.Count(r.Candidates)}
	}
	return p.printTable([]string{"ROWS", "OLDER THAN", "WOULD BE REMOVED"}, rows)
}

func (p *program) printReports(reports []janitor.Report) error {
	if p.json {
		return p.printReportsJSON(reports)
	}
	rows := make([][]string, len(reports))
	for i, r := range reports {
		removed := ops.Count(r.Deleted)
		if r.Days > 0 {
			removed += " and " + ops.Plural(r.Days, "day")
		}
		if r.Busy {
			removed += ", another janitor does the rest"
		}
		rows[i] = []string{string(r.Rows), ops.Age(r.OlderThan), ops.Count(r.Candidates), ops.Count(r.Batches), removed}
	}
	return p.printTable([]string{"ROWS", "OLDER THAN", "FOUND", "BATCHES", "REMOVED"}, rows)
}
