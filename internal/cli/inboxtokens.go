package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-go/waybill/inboxhttp"
)

// tokenEntry is a token as the file has it.
type tokenEntry struct {
	Name    string
	Token   string
	SHA256  string
	Tenants []string
	Buses   []string
	Groups  []string
}

// inboxTokens reads a file of tokens, YAML or JSON, none if no file is named.
func inboxTokens(file string) ([]inboxhttp.Token, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readTokensFile(file)
	if err != nil {
		return nil, usagef("%v", err)
	}
	tokens, err := parseInboxTokens(text)
	if err != nil {
		return nil, usagef("--tokens-file %s: %v", file, err)
	}
	return tokens, nil
}

var yamlLine = regexp.MustCompile(`line \d+`)

// parseInboxTokens never quotes what may be a secret, as the errors of the parser do.
func parseInboxTokens(text string) ([]inboxhttp.Token, error) {
	var file struct{ Tokens []tokenEntry }
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it must be a list \"tokens\" of name, token or sha256, tenants, buses and groups", yamlLine.FindString(err.Error()))
	}
	if len(file.Tokens) == 0 {
		return nil, errors.New("there are no tokens in it")
	}
	tokens := make([]inboxhttp.Token, len(file.Tokens))
	for i, e := range file.Tokens {
		secret := e.Token
		if e.SHA256 != "" {
			secret = "sha256:" + e.SHA256
		}
		if (e.Token == "") == (e.SHA256 == "") {
			return nil, fmt.Errorf("token %d, %q: give it a token or a sha256", i+1, e.Name)
		}
		token, err := inboxhttp.NewToken(e.Name, secret)
		if err != nil {
			return nil, err
		}
		token.Tenants, token.Buses, token.Groups = e.Tenants, e.Buses, e.Groups
		tokens[i] = token
	}
	return tokens, nil
}
