package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/store/pgstore"
)

func (p *program) configCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Show every option, its value, and where that came from",
		Args:  cobra.NoArgs,
		RunE:  does(p.printConfig),
	}
}

// optionRow is an option in the JSON output.
type optionRow struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	From   string `json:"from"`
	Flag   string `json:"flag"`
	Env    string `json:"env"`
	Help   string `json:"help"`
}

func (p *program) printConfig(cmd *cobra.Command, _ []string) error {
	cfg, err := p.settings(cmd)
	if err != nil {
		return err
	}
	rows := []optionRow{}
	cfg.Each(func(o config.Option, value, origin string) {
		rows = append(rows, optionRow{Option: o.Key, Value: value, From: origin, Flag: "--" + o.Flag(), Env: o.Env(), Help: o.Help})
	})
	if p.json {
		return p.printJSON(rows)
	}
	table := make([][]string, len(rows))
	for i, r := range rows {
		table[i] = []string{r.Option, orDash(r.Value), r.From, r.Help}
	}
	return p.printTable([]string{"OPTION", "VALUE", "FROM", "MEANING"}, table)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (p *program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cobra.NoArgs,
		RunE:  does(func(*cobra.Command, []string) error { return p.printVersion() }),
	}
}

// buildRow is what is known of this binary.
type buildRow struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Schema   int    `json:"oldest_schema_version"`
}

// String returns the line for people.
func (b buildRow) String() string {
	if b.Revision == "" { // built from a downloaded module
		return fmt.Sprintf("waybill %s %s %s", b.Version, b.Go, b.Platform)
	}
	return fmt.Sprintf("waybill %s commit %s %s %s", b.Version, b.Revision, b.Go, b.Platform)
}

func (p *program) printVersion() error {
	b := buildRow{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Schema: pgstore.MinSchemaVersion}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	if p.json {
		return p.printJSON(b)
	}
	_, err := fmt.Fprintln(p.stdout, b)
	return err
}
