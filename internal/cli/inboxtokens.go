package cli

import (
	"github.com/waybill-go/waybill/inboxhttp"
)

// inboxEntry is the entry of an inbox service token in the file.
type inboxEntry struct {
	tokenEntry `yaml:",inline"`
	Tenants    []string
	Buses      []string
	Groups     []string
}

// inboxTokens reads a token file; it returns none if no file is named.
func inboxTokens(file string) ([]inboxhttp.Token, error) {
	return tokensIn(file, "tenants, buses and groups", func(e inboxEntry) (inboxhttp.Token, error) {
		secret, err := e.secret()
		if err != nil {
			return inboxhttp.Token{}, err
		}
		token, err := inboxhttp.NewToken(e.Name, secret)
		token.Tenants, token.Buses, token.Groups = e.Tenants, e.Buses, e.Groups
		return token, err
	})
}
