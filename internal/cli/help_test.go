package cli

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/config"
)

// TestSections: each option stands under one heading.
func TestSections(t *testing.T) {
	t.Parallel()
	for _, o := range config.Options() {
		var under []string
		for _, s := range sections {
			if covers(s.keys, o.Key) {
				under = append(under, s.heading)
			}
		}
		if len(under) != 1 {
			t.Errorf("%s stands under %q, want one heading", o.Key, under)
		}
	}
}

// TestReadBy: it names commands and options that there are.
func TestReadBy(t *testing.T) {
	t.Parallel()
	root := (&program{}).root()
	for path, keys := range readBy {
		if cmd, _, err := root.Find(strings.Fields(path)[1:]); err != nil || cmd.CommandPath() != path {
			t.Errorf("there is no command %q", path)
		}
		for _, k := range keys {
			if !coversAny(k) {
				t.Errorf("%s: there is no option %q", path, k)
			}
		}
	}
	for _, cmd := range root.Commands() {
		if _, ok := readBy[cmd.CommandPath()]; !ok {
			t.Errorf("%q has no entry", cmd.CommandPath())
		}
	}
}

func coversAny(key string) bool {
	for _, o := range config.Options() {
		if covers([]string{key}, o.Key) {
			return true
		}
	}
	return false
}
