package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill/internal/alert"
	"github.com/waybill-go/waybill/internal/cli/notify"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
	"github.com/waybill-go/waybill/observe"
)

func (p *program) watchCommand(options *pflag.FlagSet) *cobra.Command {
	var e examination
	var once bool
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Alert people to what doctor finds, until stopped",
		Long: `Run the checks of "waybill doctor" on --store and --broker every --interval, until SIGINT or
SIGTERM, and send an alert when a finding begins and when it has ended: to a webhook, to a chat that
takes what Slack takes, by mail, or to several of them. An alert says what was found, since when, and
what to do, with links to the dashboard and the runbook.

Two checks in a row must agree before anything is sent. While the store does not answer, that is the
only finding, and no other ends. A delivery that fails is repeated, after 5 seconds and up to 5
minutes, until it succeeds. With --state alerts survive a restart; without it, what is found is
announced once more after one. One process is enough: two would both send.

The options themselves, which doctor also checks, are not watched. Secrets belong in the environment
or in the configuration file, because every user of the machine sees flags.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.watch(cmd, e, once) }),
	}
	addShort(cmd, options, "watch")
	e.inbox.add(cmd, options)
	cmd.Flags().BoolVar(&once, "once", false, "check once and print what would be sent if it lasted; send nothing")
	return cmd
}

func (p *program) watch(cmd *cobra.Command, e examination, once bool) (err error) {
	if e.cfg, err = p.settings(cmd); err != nil {
		return err
	}
	if e.store, err = storeConfig(e.cfg); err != nil {
		return err
	}
	channels, err := alertChannels(e.cfg)
	if err != nil {
		return err
	}
	state, err := readState(e.cfg.String("watch.state"))
	if err != nil {
		return err
	}
	if once {
		return p.printAlerts(cmd.Context(), e, state)
	}
	if len(channels) == 0 {
		return usagef("nobody is alerted: give --webhook, --slack or --mail, or --once to see what would be sent")
	}
	if _, err := e.firstCheck(cmd.Context()); err != nil {
		return err
	}
	names := make([]string, 0, len(channels))
	for name := range channels {
		names = append(names, name)
	}
	slices.Sort(names)
	w := &watcher{
		check: e.alertCheck, channels: channels, interval: e.cfg.Duration("watch.interval"), timeout: sendTimeout,
		file: e.cfg.String("watch.state"), log: p.logger(e.cfg), state: state.WithChannels(names...),
	}
	w.log.Info("watch is running", "channels", strings.Join(names, ","), "interval", w.interval.String())
	w.run(cmd.Context())
	w.log.Info("watch has stopped")
	return nil
}

// alertChannels returns the channels that the configuration names. An error names the option and no secret.
func alertChannels(cfg *config.Config) (map[string]channel, error) {
	channels := make(map[string]channel)
	add := func(option string, open func() (channel, error)) error {
		if cfg.String(option) == "" {
			return nil
		}
		c, err := open()
		if err != nil {
			return usagef("%s (%s): %v", option, cfg.Origin(option), err)
		}
		channels[strings.TrimPrefix(option, "watch.")] = c
		return nil
	}
	name := cfg.String("watch.name")
	for option, open := range map[string]func() (channel, error){
		"watch.webhook": func() (channel, error) {
			return notify.NewWebhook(name, cfg.String("watch.webhook"), secrets(strings.Fields(cfg.String("watch.secret"))))
		},
		"watch.slack": func() (channel, error) { return notify.NewSlack(name, cfg.String("watch.slack")) },
		"watch.mail": func() (channel, error) {
			return notify.NewMail(notify.MailConfig{
				System: name, Server: cfg.String("watch.mail"), From: cfg.String("watch.mail_from"), To: commaList(cfg.String("watch.mail_to")),
			})
		},
	} {
		if err := add(option, open); err != nil {
			return nil, err
		}
	}
	return channels, nil
}

// printAlerts checks once and prints what would be sent if it lasted.
func (p *program) printAlerts(ctx context.Context, e examination, state alert.State) error {
	check, err := e.firstCheck(ctx)
	if err != nil {
		return err
	}
	_, alerts := state.Next(check, 1)
	if p.json {
		return p.printJSON(append([]alert.Alert{}, alerts...))
	}
	if len(alerts) == 0 {
		_, err := fmt.Fprintln(p.stdout, "Nothing would be sent.")
		return err
	}
	rows := make([][]string, len(alerts))
	for i, a := range alerts {
		text := a.Found
		if a.Event == alert.Began {
			text += " → " + a.Advice
		}
		rows[i] = []string{string(a.Event), a.Severity, a.Subject, text}
	}
	return p.printTable([]string{"EVENT", "", "SUBJECT", "FOUND"}, rows)
}

// firstCheck is alertCheck, with an error if the configuration is wrong.
func (e examination) firstCheck(ctx context.Context) (alert.Check, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	findings, err := e.examineServers(ctx)
	return e.checkOf(findings, time.Now()), err
}

// alertCheck runs the doctor's checks of the servers.
func (e examination) alertCheck(ctx context.Context) alert.Check {
	findings, err := e.examineServers(ctx)
	if err != nil {
		findings = []finding{unreadable("checks", observe.ErrorText(err), "see: waybill doctor")}
	}
	return e.checkOf(findings, time.Now())
}

// checkOf turns findings into a check: those that are grave enough, and only that the store does not answer if
// it does not.
func (e examination) checkOf(findings []finding, at time.Time) alert.Check {
	if i := slices.IndexFunc(findings, func(f finding) bool { return f.Subject == storeSubject && f.Severity == ops.Problem }); i >= 0 {
		findings = findings[i : i+1]
	}
	c := alert.Check{At: at}
	for _, f := range findings {
		c.Partial = c.Partial || f.unread
		if f.Severity != ops.Problem && (!ops.IsTrouble(f.Finding) || e.cfg.String("watch.severity") == string(ops.Problem)) {
			continue
		}
		page, section := ops.PlaceOf(f.Subject)
		one := alert.Finding{
			Severity: string(f.Severity), Subject: f.Subject, About: f.about, Found: f.Found, Advice: f.Advice,
			Runbook: e.cfg.String("watch.docs") + section,
		}
		if url := e.cfg.String("watch.dashboard"); url != "" {
			one.Dashboard = strings.TrimSuffix(url, "/") + "/" + cmp.Or(page, "checks")
		}
		c.Findings = append(c.Findings, one)
	}
	return c
}
