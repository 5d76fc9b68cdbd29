package config

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/waybill-go/waybill/internal/redact"
)

// checkMode reports unsafe permissions of the configuration file: others must not change where
// messages go, and should not read passwords.
func (c *Config) checkMode(path string, fromFile map[string]value) error {
	if path == "" || runtime.GOOS == "windows" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil // reading it has failed, too
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return fmt.Errorf("%s can be changed by everybody on this machine (%v); chmod o-w it", path, fs.FileMode(mode))
	case mode&0o004 != 0 && c.fileHasSecrets(fromFile):
		c.warnings = append(c.warnings, fmt.Sprintf("%s holds secrets and can be read by everybody on this machine (%v); chmod 600 it", path, fs.FileMode(mode)))
	}
	return nil
}

// fileHasSecrets reports whether something in the file is secret.
func (c *Config) fileHasSecrets(fromFile map[string]value) bool {
	for _, o := range options {
		v, ok := fromFile[o.Key]
		if o.Secret && ok && (o.Redacted(v.raw) != v.raw || !strings.Contains(v.raw, ":")) {
			return true
		}
	}
	for _, r := range c.lists.routes {
		if redact.URL(r.Broker) != r.Broker {
			return true
		}
	}
	for _, w := range c.lists.webhooks {
		if len(w.Secrets)+len(w.Headers) > 0 || redact.URL(w.URL) != w.URL {
			return true
		}
	}
	return false
}

// Warnings returns the problems in spite of which the configuration was loaded.
func (c *Config) Warnings() []string { return c.warnings }
