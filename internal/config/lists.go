package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Route sends topics to a separate broker. The file has routes in the list "routes".
type Route struct {
	Name   string   `yaml:"name"`
	Broker string   `yaml:"broker"` // a connection URL
	Topics []string `yaml:"topics"` // patterns
	Rate   float64  `yaml:"rate"`

	Structured bool `yaml:"structured"` // content mode of CloudEvents
}

// Webhook is a subscriber that messages are posted to. The file has webhooks in the list
// "webhooks".
type Webhook struct {
	Name     string            `yaml:"name"`
	URL      string            `yaml:"url"`
	Secrets  []string          `yaml:"secrets"`
	Topics   []string          `yaml:"topics"` // patterns
	Types    []string          `yaml:"types"`  // patterns
	Headers  map[string]string `yaml:"headers"`
	Rate     float64           `yaml:"rate"`
	Disabled bool              `yaml:"disabled"`

	Structured bool `yaml:"structured"` // content mode of CloudEvents
}

// lists are the lists of the file, which are not options.
type lists struct {
	routes   []Route
	webhooks []Webhook
}

// Routes returns the list "routes" of the file.
func (c *Config) Routes() []Route { return slices.Clone(c.lists.routes) }

// Webhooks returns the list "webhooks" of the file.
func (c *Config) Webhooks() []Webhook { return slices.Clone(c.lists.webhooks) }

// list reads one of the lists, and reports false if key is not one.
func (p *fileParser) list(key string, name, content *yaml.Node) bool {
	switch key {
	case "routes":
		p.lists.routes = entries[Route](p, key, name, content, "name", "broker", "topics", "rate", "structured")
	case "webhooks":
		p.lists.webhooks = entries[Webhook](p, key, name, content,
			"name", "url", "secrets", "topics", "types", "headers", "rate", "disabled", "structured")
	default:
		return false
	}
	return true
}

// entries reads the mappings of a list. Errors of the YAML package about a value are not passed
// on: they quote the value, which may be a secret.
func entries[T any](p *fileParser, key string, name, content *yaml.Node, fields ...string) []T {
	if p.lines[key] != 0 {
		p.failf(name, "%s is set in line %d already", key, p.lines[key])
		return nil
	}
	p.lines[key] = name.Line
	if isNull(content) {
		return nil
	}
	if content.Kind != yaml.SequenceNode {
		p.failf(content, "%s is a list, expected an entry for each with %s", key, strings.Join(fields, ", "))
		return nil
	}
	var list []T
	for _, entry := range content.Content {
		var v T
		if p.checkEntry(key, entry, fields) && entry.Decode(&v) != nil {
			p.failf(entry, "an entry of %s has a value of the wrong kind", key)
		}
		list = append(list, v)
	}
	return list
}

// checkEntry reports whether an entry is a mapping of known fields, each once.
func (p *fileParser) checkEntry(key string, entry *yaml.Node, fields []string) bool {
	if entry.Kind != yaml.MappingNode {
		p.failf(entry, "an entry of %s is no mapping; it has %s", key, strings.Join(fields, ", "))
		return false
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(entry.Content); i += 2 {
		field := entry.Content[i]
		if !slices.Contains(fields, field.Value) || seen[field.Value] {
			p.failf(field, "%s in an entry of %s is unknown, or there twice; it has %s", field.Value, key, strings.Join(fields, ", "))
			return false
		}
		seen[field.Value] = true
	}
	return true
}

// checkLists looks for names that are missing or used twice: a destination is identified by its
// name.
func (c *Config) checkLists() []error {
	var errs []error
	names := map[string]string{DefaultRoute: "the broker that is left what no route takes"}
	check := func(kind, name string) {
		switch other, taken := names[name]; {
		case name == "":
			errs = append(errs, fmt.Errorf("%s: an entry has no name", kind))
		case taken:
			errs = append(errs, fmt.Errorf("%s: the name %s is that of %s", kind, name, other))
		}
		names[name] = "another entry of " + kind
	}
	for _, r := range c.lists.routes {
		check("routes", r.Name)
	}
	for _, w := range c.lists.webhooks {
		check("webhooks", w.Name)
	}
	return errs
}

// DefaultRoute is the name of the destination for the option broker if there are routes or
// webhooks.
const DefaultRoute = "broker"
