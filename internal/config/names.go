package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// FileEnv is the environment variable that names the configuration file. It is not an
// option, because the file cannot name itself.
const FileEnv = "WAYBILL_CONFIG"

// TokensEnv is the environment variable that holds the tokens of the dashboard. It is not
// an option, because a secret must not be a flag and is not shown.
const TokensEnv = "WAYBILL_DASHBOARD_TOKENS"

// DefaultFile is the configuration file that is read if it exists and none is named.
const DefaultFile = "waybill.yaml"

const envPrefix = "WAYBILL_"

// File returns the path of the configuration file to give to [Load]: flag, the value of the
// program's own flag for it; else the value of [FileEnv] in env; else [DefaultFile] if that
// exists in the working directory; else "".
func File(flag string, env []string) string {
	if flag != "" {
		return flag
	}
	for _, entry := range env {
		if path, ok := strings.CutPrefix(entry, FileEnv+"="); ok && path != "" {
			return path
		}
	}
	if _, err := os.Stat(DefaultFile); err == nil {
		return DefaultFile
	}
	return ""
}

// readEnv returns the program's own variables of the environment, by the option's key.
func readEnv(env []string) (map[string]value, error) {
	values := make(map[string]value)
	var unknown []error
	for _, entry := range env {
		name, raw, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, envPrefix) || name == FileEnv || name == TokensEnv {
			continue
		}
		o, ok := find(func(o Option) bool { return o.Env() == name })
		if !ok {
			unknown = append(unknown, fmt.Errorf("no option has the environment variable %s", name))
			continue
		}
		values[o.Key] = value{raw: raw, origin: name}
	}
	return values, errors.Join(unknown...)
}

// readFlags turns the names of flags into keys of options.
func readFlags(flags map[string]string) (map[string]value, error) {
	values := make(map[string]value, len(flags))
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		o, ok := find(func(o Option) bool { return o.Flag() == name })
		if !ok {
			unknown = append(unknown, fmt.Errorf("no option has the flag --%s", name))
			continue
		}
		values[o.Key] = value{raw: flags[name], origin: "--" + name}
	}
	return values, errors.Join(unknown...)
}
