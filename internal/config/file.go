package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readFile reads the values of a YAML file, by the option's key. Sections are nested
// mappings, or dotted keys where a section has the name of an option:
//
//	broker: nats://127.0.0.1
//	nats.stream: orders
//	relay:
//	  poll_interval: 5s
//
// The file also has lists.
func readFile(path string) (map[string]value, lists, error) {
	if path == "" {
		return nil, lists{}, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, lists{}, fmt.Errorf("configuration file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return parseFile(path, f)
}

func parseFile(path string, r io.Reader) (map[string]value, lists, error) {
	decoder := yaml.NewDecoder(r)
	var document yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, lists{}, nil // nothing but comments
	} else if err != nil {
		return nil, lists{}, fmt.Errorf("%s: %w", path, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, lists{}, fmt.Errorf("%s: has more than one document", path)
	}
	p := fileParser{path: path, values: make(map[string]value), lines: make(map[string]int)}
	for _, root := range document.Content {
		p.section("", root)
	}
	return p.values, p.lists, errors.Join(p.errs...)
}

// fileParser collects the values and the errors of one file.
type fileParser struct {
	path   string
	values map[string]value
	lists  lists
	lines  map[string]int // of keys seen, to report where a duplicate occurred first
	errs   []error
}

func (p *fileParser) failf(n *yaml.Node, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %s", p.path, n.Line, fmt.Sprintf(format, args...)))
}

// section reads a mapping whose keys continue prefix. A section whose entries are all
// comments is a null.
func (p *fileParser) section(prefix string, n *yaml.Node) {
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		p.failf(n, "expected a mapping of option names to values")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, content := n.Content[i], n.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			p.failf(name, "expected the name of an option")
			continue
		}
		if key := prefix + name.Value; !p.list(key, name, content) {
			p.entry(key, name, content)
		}
	}
}

func (p *fileParser) entry(key string, name, content *yaml.Node) {
	_, isOption := find(func(o Option) bool { return o.Key == key })
	isSection := hasSection(key)
	switch {
	case isSection && (content.Kind == yaml.MappingNode || isNull(content)):
		p.section(key+".", content)
	case !isOption && !isSection:
		p.failf(name, "there is no option %s", key)
	case !isOption:
		p.failf(content, "%s is a section, expected its options", key)
	case content.Kind != yaml.ScalarNode:
		p.failf(content, "%s must be a single value", key)
	case isNull(content):
		p.failf(content, "%s has no value", key)
	case p.lines[key] != 0:
		p.failf(name, "%s is set in line %d already", key, p.lines[key])
	default:
		p.lines[key] = name.Line
		p.values[key] = value{raw: content.Value, origin: fmt.Sprintf("%s:%d", p.path, name.Line)}
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// hasSection reports whether any option's key starts with key and a dot.
func hasSection(key string) bool {
	_, ok := find(func(o Option) bool {
		return strings.HasPrefix(o.Key, key+".")
	})
	return ok
}
