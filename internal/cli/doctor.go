package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/outbox"
)

func (p *program) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check that store and broker are fit for work",
		Long: `Check that store and broker are fit for work. Each line is ok, warn (it works, but look at
it) or FAIL (it does not work), with what to do. The exit code is 0 if no check fails, warnings
or not; 1 if one fails; 2 if the options are wrong.

On PostgreSQL it names what keeps dead rows from being removed (transactions, replication
slots, standbys), and open transactions that have enqueued. Of a session's statement it shows
the beginning, up to the first value. For sessions of other roles it needs pg_monitor.`,
		Args: cobra.NoArgs,
		RunE: does(p.doctor),
	}
}

// verdict is how a check came out.
type verdict string

const (
	ok   verdict = "ok"
	warn verdict = "warn"
	fail verdict = "FAIL"
)

// finding is the result of one check.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Detail  string  `json:"detail"`
	Advice  string  `json:"advice,omitempty"` // what to do, if it is not ok

	Holder *holderRow `json:"holder,omitempty"` // whom it is about
}

func passing(check, detail string) finding { return finding{Check: check, Verdict: ok, Detail: detail} }

func warning(check, detail, advice string) finding {
	return finding{Check: check, Verdict: warn, Detail: detail, Advice: advice}
}

func failing(check, detail, advice string) finding {
	return finding{Check: check, Verdict: fail, Detail: detail, Advice: advice}
}

// limits of what is ok.
const (
	clockLimit   = time.Second
	pendingLimit = time.Minute
)

func (p *program) doctor(cmd *cobra.Command, _ []string) error {
	cfg, err := p.settings(cmd)
	if err != nil {
		return err
	}
	c, err := storeConfig(cfg)
	if err != nil {
		return err
	}
	findings, err := checkStore(cmd.Context(), c)
	if err != nil {
		return err
	}
	brokerFinding, err := checkBroker(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	findings = append(findings, brokerFinding)
	findings = append(findings, checkRetention(cmd.Context(), cfg))
	if err := p.printFindings(findings); err != nil {
		return err
	}
	for _, f := range findings {
		if f.Verdict == fail {
			return silent
		}
	}
	return nil
}

func (p *program) printFindings(findings []finding) error {
	if p.json {
		return p.printJSON(findings)
	}
	rows := make([][]string, len(findings))
	for i, f := range findings {
		text := f.Detail
		if f.Advice != "" {
			text += " → " + f.Advice
		}
		rows[i] = []string{string(f.Verdict), f.Check, text}
	}
	return p.printTable([]string{"", "CHECK", "FOUND"}, rows)
}

// checkStore runs the checks of the store; those behind one that fails may be left out. The
// error is about the configuration.
func checkStore(ctx context.Context, c opener.StoreConfig) ([]finding, error) {
	store, err := opener.OpenStore(ctx, c)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return []finding{failing("store", err.Error(), "start it, or correct --store")}, nil
	}
	if err != nil {
		return nil, err
	}
	defer store.Close()
	began := time.Now()
	facts, err := store.Facts(ctx)
	if err != nil {
		return []finding{failing("store", err.Error(), "see the database's log")}, nil
	}
	findings := []finding{passing("store", facts.Version+" at "+store.Address())}
	if !facts.Clock.IsZero() {
		findings = append(findings, checkClock(facts, began, time.Now()))
	}
	if facts.TimeZone != "" {
		findings = append(findings, passing("time zone", facts.TimeZone+"; instants are stored, so any will do"))
	}
	if facts.Isolation != "" {
		findings = append(findings, checkIsolation(facts.Isolation))
	}
	return append(findings, checkTables(ctx, store)...), nil
}

// checkClock compares the store's clock with ours, which was read before and after.
func checkClock(facts opener.Facts, before, after time.Time) finding {
	trip := after.Sub(before)
	offset := facts.Clock.Sub(before.Add(trip / 2))
	f := passing("clock", fmt.Sprintf("the store's differs by %v, ±%v", offset.Round(time.Millisecond), (trip/2).Round(time.Millisecond)))
	if offset.Abs() > clockLimit+trip/2 {
		f.Verdict, f.Advice = warn, "set both by NTP; the store's decides what is due, ours what logs say"
	}
	return f
}

func checkIsolation(level string) finding {
	f := passing("isolation", level+" is the default")
	if !strings.EqualFold(level, "read committed") {
		f.Verdict, f.Advice = warn, "waybill's own transactions say READ COMMITTED; repeat yours when they clash (outbox.InTx does)"
	}
	return f
}

// checkTables runs the checks that need the tables.
func checkTables(ctx context.Context, store opener.Store) []finding {
	version, err := store.SchemaVersion(ctx)
	switch {
	case err != nil:
		return []finding{failing("schema", err.Error(), "run waybill migrate, or the release that fits")}
	case version == 0:
		return []finding{failing("schema", "there are no tables", "run: waybill migrate")}
	}
	newest := len(store.Migrations())
	f := passing("schema", fmt.Sprintf("version %d, the newest", version))
	if version < newest {
		f = warning("schema", fmt.Sprintf("version %d, the newest is %d", version, newest), "run: waybill migrate")
	}
	findings := []finding{f}
	stats, err := store.OutboxStats(ctx)
	if err != nil {
		return append(findings, failing("outbox", err.Error(), "check the permissions of the role"))
	}
	findings = append(findings, checkPending(stats), checkDead(stats))
	if pg, ok := store.(conditioned); ok {
		findings = append(findings, checkCondition(ctx, pg, usualPatience)...)
	}
	return findings
}

func checkPending(stats []outbox.Stats) finding {
	var count int64
	var oldest time.Duration
	for _, s := range stats {
		if s.Status == outbox.Pending {
			count += s.Count
			oldest = max(oldest, s.Oldest)
		}
	}
	if count == 0 {
		return passing("pending", "no message waits for the relay")
	}
	f := passing("pending", fmt.Sprintf("%s, the oldest is %s old", plural(int(count), "message"), age(oldest)))
	if oldest > pendingLimit {
		f.Verdict, f.Advice = warn, "is a relay running, and does the broker take what it publishes?"
	}
	return f
}

func checkDead(stats []outbox.Stats) finding {
	var count int64
	for _, s := range stats {
		if s.Status == outbox.Dead || s.Status == outbox.Failed {
			count += s.Count
		}
	}
	if count == 0 {
		return passing("dead letters", "the relay has given up on no message")
	}
	return warning("dead letters", fmt.Sprintf("the relay has given up on %s", plural(int(count), "message")), "see: waybill dead list")
}

// checkBroker opens the broker and lets it confirm something. The error is about the
// configuration.
func checkBroker(ctx context.Context, cfg *config.Config) (finding, error) {
	if cfg.String("broker") == "" {
		return warning("broker", "not checked, none is set", "give --broker"), nil
	}
	c, err := brokerConfig(cfg)
	if err != nil {
		return finding{}, err
	}
	broker, err := opener.OpenBroker(ctx, c)
	var unreachable *opener.UnreachableError
	if errors.As(err, &unreachable) {
		return failing("broker", err.Error(), "start it, or correct --broker"), nil
	}
	if err != nil {
		return finding{}, err
	}
	defer broker.Close()
	address := config.Redact(c.URL)
	if err := broker.Ping(ctx); err != nil {
		return failing("broker", address+": "+err.Error(), "see the broker's log"), nil
	}
	return passing("broker", address+" answers and confirms"), nil
}
