package cli

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill/dashboard"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/httpserve"
)

// dashboardFlags are the flags of the command.
type dashboardFlags struct {
	listenFlags
	tokensFile, environment  string
	userHeader, groupsHeader string
	proxies, grants          []string
}

func (p *program) dashboardCommand() *cobra.Command {
	var f dashboardFlags
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Show everything in a browser, until stopped",
		Long: `Show in a browser what is pending, what is stuck and why, and fix it there. Without
tokens it serves this machine only, and everybody on it as admin.

Tokens are in a file (--tokens-file, readable by its owner only) or in ` + config.TokensEnv + `, a
line for each: name, role, token, such as

    alice operator+payloads sha256:5e88…
    kim   reader@acme       sha256:9f86…

The roles are reader (looks), operator (requeues, resolves, replays, resumes sagas) and admin
(discards, edits, has sagas compensated); +payloads is for those who may see payloads, @acme for those
who are limited to the tenant acme. A token is given as it is, of at least
20 bytes, or as sha256: and its SHA-256.

Behind a proxy that signs people in, give --proxy, --user-header and --grant instead.

While somebody looks it checks once a minute what "waybill doctor" checks; give --broker to have
the broker looked at as well. What drives the replays that are started here is the relays.`,
		Args: cobra.NoArgs,
		RunE: does(func(cmd *cobra.Command, _ []string) error { return p.dashboard(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8090", "`address` to listen on")
	flags.StringVar(&f.tokensFile, "tokens-file", "", "`file` of tokens")
	flags.StringVar(&f.environment, "environment", "", "`name` that is shown on each page, such as production")
	flags.StringVar(&f.cert, "tls-cert", "", "`file` of the certificate, to speak TLS")
	flags.StringVar(&f.key, "tls-key", "", "`file` of its key")
	flags.StringSliceVar(&f.proxies, "proxy", nil, "`addresses` of trusted proxies, such as 10.0.0.0/8")
	flags.StringVar(&f.userHeader, "user-header", "", "`header` in which the proxies name the person; they must remove it from what they are sent")
	flags.StringVar(&f.groupsHeader, "groups-header", "", "`header` in which they name the person's groups")
	flags.StringSliceVar(&f.grants, "grant", nil, "what a group may do, `group=role` or group=role@tenant; *=role for everybody")
	return cmd
}

func (p *program) dashboard(cmd *cobra.Command, f dashboardFlags) error {
	cfg, err := p.dashboardConfig(f)
	if err != nil {
		return usagef("%v", err)
	}
	if err := f.check(cfg.AllowLoopback); err != nil {
		return err
	}
	return p.withTables(func(cmd *cobra.Command, store opener.Store, _ []string) error {
		settings, err := p.settings(cmd)
		if err != nil {
			return err
		}
		cfg.Logger = p.logger(settings)
		cfg.InboxRetention = settings.Duration("inbox.retention")
		e := examination{cfg: settings}
		if e.store, err = storeConfig(settings); err != nil {
			return err
		}
		cfg.Checks = e.forDashboard
		return p.serveDashboard(cmd.Context(), store, cfg, f)
	})(cmd, nil)
}

// check refuses flags that would expose the dashboard, or its tokens, to everybody.
func (f dashboardFlags) check(open bool) error {
	local, err := f.listenFlags.check()
	switch {
	case err != nil:
		return err
	case open && !local:
		return usagef("--listen %s can be reached from other machines, and nobody would be asked who they are; "+
			"give --tokens-file or %s, or listen on 127.0.0.1", f.listen, config.TokensEnv)
	case !local && !f.speaksTLS() && len(f.proxies) == 0:
		return usagef("--listen %s can be reached from other machines, and tokens would travel in the clear; "+
			"give --tls-cert and --tls-key, or --proxy for the proxy that speaks TLS, or listen on 127.0.0.1", f.listen)
	}
	return nil
}

func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// dashboardConfig returns the dashboard's configuration: who may do what.
func (p *program) dashboardConfig(f dashboardFlags) (cfg dashboard.Config, err error) {
	cfg.Environment = f.environment
	if cfg.TrustedProxies, err = prefixes(f.proxies); err != nil {
		return cfg, err
	}
	text, err := p.tokens(f.tokensFile)
	switch {
	case err != nil:
		return cfg, err
	case text != "" && f.userHeader != "":
		return cfg, errors.New("tokens and --user-header do not go together")
	case text != "":
		cfg.Access, err = accessBy(text)
	case f.userHeader != "":
		cfg.Access, err = proxyAccess(f, cfg.TrustedProxies)
	default:
		cfg.AllowLoopback = true
	}
	return cfg, err
}

// tokens returns the lines of the token file, or of the environment.
func (p *program) tokens(file string) (string, error) {
	if file == "" {
		return strings.ReplaceAll(p.getenv(config.TokensEnv), ";", "\n"), nil
	}
	return readTokensFile(file)
}

// readTokensFile returns the content of a token file, which only its owner may read.
func readTokensFile(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("--tokens-file %s can be read by others; chmod 600 it", file)
	}
	text, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(text)) == "" {
		err = fmt.Errorf("--tokens-file %s is empty; nobody could sign in", file)
	}
	return string(text), err
}

// readTokens reads one token per line. Errors never quote what may be a secret.
func readTokens(text string) ([]dashboard.Token, error) {
	var tokens []dashboard.Token
	number := 0
	for line := range strings.Lines(text) {
		number++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("line %d of the tokens has %d words; it needs name, role, token", number, len(fields))
		}
		grant, err := dashboard.ParseGrant(fields[1])
		if err != nil {
			return nil, fmt.Errorf("line %d of the tokens: the second word is not a role; it is reader, operator or admin, followed by +payloads for who may see payloads, and by @ and a tenant for who is limited to it", number)
		}
		token, err := dashboard.NewToken(fields[0], fields[2], grant)
		if err != nil {
			return nil, fmt.Errorf("line %d of the tokens: %w", number, err)
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}

func accessBy(text string) (dashboard.Authenticator, error) {
	tokens, err := readTokens(text)
	if err != nil {
		return nil, err
	}
	return dashboard.NewTokens(tokens...)
}

// proxyAccess trusts the proxies.
func proxyAccess(f dashboardFlags, trusted []netip.Prefix) (dashboard.Authenticator, error) {
	cfg := dashboard.ProxyConfig{Trusted: trusted, UserHeader: f.userHeader, GroupsHeader: f.groupsHeader, Groups: make(map[string]dashboard.Grant)}
	for _, text := range f.grants {
		group, role, _ := strings.Cut(text, "=")
		grant, err := dashboard.ParseGrant(role)
		if err != nil {
			return nil, fmt.Errorf("--grant %s: %w", text, err)
		}
		if group == "*" {
			cfg.Default = grant
		} else {
			cfg.Groups[group] = grant
		}
	}
	if len(trusted) == 0 {
		return nil, errors.New("--user-header needs --proxy, or anybody could claim to be anybody")
	}
	return dashboard.NewProxyAccess(cfg)
}

func prefixes(texts []string) ([]netip.Prefix, error) {
	var list []netip.Prefix
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if addr, errAddr := netip.ParseAddr(text); errAddr == nil {
			prefix, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--proxy is %q; it is an address such as 10.0.0.7, or a range such as 10.0.0.0/8", text)
		}
		list = append(list, prefix)
	}
	return list, nil
}

// serveDashboard serves until ctx is done.
func (p *program) serveDashboard(ctx context.Context, store dashboard.Store, cfg dashboard.Config, f dashboardFlags) error {
	handler, err := dashboard.New(store, cfg)
	if err != nil {
		return err
	}
	if access, ok := cfg.Access.(*dashboard.Tokens); ok {
		defer watchTokens(ctx, f.tokensFile, cfg.Logger, func() error {
			text, err := readTokensFile(f.tokensFile)
			if err != nil {
				return err
			}
			tokens, err := readTokens(text)
			if err != nil {
				return err
			}
			return access.Set(tokens...)
		})()
	}
	return serveUntil(ctx, httpserve.New(handler, cfg.Logger), f.listenFlags, func(url string) {
		fmt.Fprintf(p.stderr, "The dashboard is at %s\n", url)
		if cfg.AllowLoopback {
			fmt.Fprintf(p.stderr, "WARNING: no tokens were given, so everybody on this machine is admin and sees payloads; give --tokens-file\n")
		}
	})
}
