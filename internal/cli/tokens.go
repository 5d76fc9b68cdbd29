package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-go/waybill/internal/loop"
)

// tokenEntry has the fields of every token in a token file.
type tokenEntry struct{ Name, Token, SHA256 string }

// secret returns the token, or its hash with "sha256:" before it.
func (e tokenEntry) secret() (string, error) {
	switch {
	case (e.Token == "") == (e.SHA256 == ""):
		return "", fmt.Errorf("token %q: give it a token or a sha256", e.Name)
	case e.SHA256 != "":
		return "sha256:" + e.SHA256, nil
	}
	return e.Token, nil
}

// tokensIn reads a token file, YAML or JSON, and makes a token of each entry; none if no file is named.
// fields names the fields of an entry in addition to those of a [tokenEntry], for error texts.
func tokensIn[E, T any](file, fields string, token func(E) (T, error)) ([]T, error) {
	if file == "" {
		return nil, nil
	}
	text, err := readTokensFile(file)
	if err != nil {
		return nil, usagef("%v", err)
	}
	tokens, err := parseTokens(text, fields, token)
	if err != nil {
		return nil, usagef("--tokens-file %s: %v", file, err)
	}
	return tokens, nil
}

var yamlLine = regexp.MustCompile(`line \d+`)

// parseTokens never quotes what may be a secret, as the errors of the parser do.
func parseTokens[E, T any](text, fields string, token func(E) (T, error)) ([]T, error) {
	var file struct{ Tokens []E }
	decoder := yaml.NewDecoder(strings.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: it must be a list \"tokens\" of name, token or sha256, %s", yamlLine.FindString(err.Error()), fields)
	}
	if len(file.Tokens) == 0 {
		return nil, errors.New("there are no tokens in it")
	}
	tokens := make([]T, len(file.Tokens))
	for i, e := range file.Tokens {
		var err error
		if tokens[i], err = token(e); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// tokensInterval is how often a token file is checked.
const tokensInterval = time.Second

// watchTokens calls apply, which reads a token file, each time that the file has changed, until the
// returned function is called. If the tokens cannot be read, the previous ones stay valid.
func watchTokens(ctx context.Context, file string, logger *slog.Logger, apply func() error) (stop func()) {
	if file == "" {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		last := stampOf(file)
		_ = apply() // it may have changed since it was read
		for ; ctx.Err() == nil; loop.Sleep(ctx, tokensInterval) {
			now := stampOf(file)
			if now == last {
				continue
			}
			last = now
			if err := apply(); err != nil {
				logger.Error("the file of tokens has changed and cannot be used; the tokens of before still hold", "error", err)
			} else {
				logger.Info("the file of tokens has changed and was read again")
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// stampOf returns a value that differs when a file has changed.
func stampOf(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return "missing"
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size(), info.Mode())
}
