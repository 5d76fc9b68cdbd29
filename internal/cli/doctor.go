package cli

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/store/pgstore/pgadmin"
)

// finding is the result of one check, and its subject.
type finding struct {
	ops.Finding
	Holder *holderRow `json:"holder,omitempty"`

	about  string // which one, where a subject may have several findings: the same in each examination
	unread bool   // something could not be read, so that other findings may be missing
}

func passing(subject, found string) finding {
	return finding{Finding: ops.Finding{Severity: ops.OK, Subject: subject, Found: found}}
}

func noting(subject, found, advice string) finding {
	return finding{Finding: ops.Finding{Severity: ops.Note, Subject: subject, Found: found, Advice: advice}}
}

func warning(subject, found, advice string) finding {
	return finding{Finding: ops.Finding{Severity: ops.Warning, Subject: subject, Found: found, Advice: advice}}
}

func failing(subject, found, advice string) finding {
	return finding{Finding: ops.Finding{Severity: ops.Problem, Subject: subject, Found: found, Advice: advice}}
}

// unreadable is failing for something that could not be read.
func unreadable(subject, found, advice string) finding {
	f := failing(subject, found, advice)
	f.unread = true
	return f
}

// on returns the finding with what it is about.
func (f finding) on(about string) finding {
	f.about = about
	return f
}

// examination is what the doctor is asked to check.
type examination struct {
	cfg   *config.Config
	store opener.StoreConfig
	as    pgadmin.Role // what the role must be able to do; "" if nobody says
	probe bool         // whether something may be published
	inbox inboxQuestion
}

func (p *program) doctorCommand(options *pflag.FlagSet) *cobra.Command {
	var e examination
	var as string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that store and broker are fit for work",
		Long: `Check that store and broker are fit for work. Each line is ok, a note (worth knowing), a
warning (it works, but look at it) or a problem (it does not work), with what to do. The exit
code is 1 if there is a problem, 0 if there is none, warnings or not, and 2 if the options are
wrong.

Nothing is stored, published or declared, unless --probe lets one message be published to a topic
that nobody is to know, to see it come back, or --inbox-discovery a ping to inbox services. Run it as
a program would connect, and say with --as
what that program does; "waybill roles" prints the roles. On PostgreSQL it also names what keeps
dead rows from being removed (transactions, replication slots, standbys), and open transactions
that have enqueued. Redis, as a store of the inbox service, is asked whether it forgets keys when
its memory is full. Of a session's statement it shows the beginning, up to the first value. For
sessions of other roles it needs pg_monitor.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error {
			e.as = pgadmin.Role(as)
			if as != "" && !slices.Contains(pgadmin.Roles(), e.as) {
				return usagef("--as is %q; it is %s", as, roleNames())
			}
			return p.doctor(cmd, e)
		}),
	}
	cmd.Flags().StringVar(&as, "as", "", "what the role of --store must be able to do: "+roleNames())
	e.inbox.add(cmd, options)
	cmd.Flags().BoolVar(&e.probe, "probe", false, "publish a message that nobody waits for, and see it come back")
	return cmd
}

func roleNames() string {
	var names []string
	for _, role := range pgadmin.Roles() {
		names = append(names, string(role))
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

func (p *program) doctor(cmd *cobra.Command, e examination) (err error) {
	if e.cfg, err = p.settings(cmd); err != nil {
		return err
	}
	if e.store, err = storeConfig(e.cfg); err != nil {
		return err
	}
	findings, err := e.examine(cmd.Context())
	if err != nil {
		return err
	}
	if err := p.printFindings(findings); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f finding) bool { return f.Severity == ops.Problem }) {
		return silent
	}
	return nil
}

// examine runs every check. The error is about the configuration.
func (e examination) examine(ctx context.Context) ([]finding, error) {
	findings, err := e.examineServers(ctx)
	if err != nil {
		return nil, err
	}
	return append(findings, checkRetention(ctx, e.cfg), checkPractices(e.cfg)), nil
}

// examineServers checks the store, the broker and the inbox service. The error is about the configuration.
func (e examination) examineServers(ctx context.Context) ([]finding, error) {
	findings, err := e.checkStore(ctx)
	if err != nil {
		return nil, err
	}
	broker, err := e.checkBroker(ctx)
	if err != nil {
		return nil, err
	}
	service, err := e.checkInbox(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Concat(findings, broker, service), nil
}

func (p *program) printFindings(findings []finding) error {
	if p.json {
		return p.printJSON(findings)
	}
	rows := make([][]string, len(findings))
	for i, f := range findings {
		text := f.Found
		if f.Advice != "" {
			text += " → " + f.Advice
		}
		rows[i] = []string{string(f.Severity), f.Subject, text}
	}
	var table strings.Builder
	if err := writeTable(&table, []string{"", "SUBJECT", "FOUND"}, rows); err != nil {
		return err
	}
	_, err := io.WriteString(p.stdout, p.paint(table.String()))
	return err
}
