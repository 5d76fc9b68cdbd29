package sqlstore

import (
	"embed"
	"io/fs"
	"maps"
	"strings"
	"text/template"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/internal/sqldb"
	"github.com/waybill-go/waybill/internal/sqlfile"
)

//go:embed sql/*.sql
var statementFiles embed.FS

// LoadStatements reads the statements that stores have in common, and those in own, which complement or
// replace them. In braces they may have each other, as package sqlfile says, and:
//
//   - names of tables, and other names of d: the store's Render fills them in;
//   - {where}, which is filled in for each call;
//   - {now}, the clock, {key}, the column, {integer}, what a number is cast to;
//   - {message} and {message "o"}, the columns of a message, the second with the alias of a table;
//   - {listed_message}, the same without the payload;
//   - {message_fields} and {message_params 13}, the columns of a message that is an argument, and its
//     parameters from $13 on;
//   - {least_of_key} and {max_history}, numbers.
func LoadStatements(d sqlfile.Dialect, own fs.FS) (*sqlfile.Statements, error) {
	d.Names = append([]string{"where", "now", "key", "integer"}, d.Names...)
	funcs := template.FuncMap{
		"message":        messageColumns,
		"listed_message": func() string { return strings.Replace(messageColumns(), "payload, payload_bytes", "NULL, NULL", 1) },
		"message_fields": func() string { return bracedKey(MessageFields) },
		"message_params": messageParams,
		"least_of_key":   func() int { return LeastOfKey },
		"max_history":    func() int { return deadletter.MaxHistory },
	}
	maps.Copy(funcs, d.Funcs)
	d.Funcs = funcs
	return sqlfile.Load(d, statementFiles, own)
}

// messageColumns returns the columns of a message, with the alias of a table if there is one.
func messageColumns(alias ...string) string {
	if len(alias) == 0 {
		return bracedKey(sqldb.MessageColumns)
	}
	return bracedKey(sqldb.MessageColumnsOf(alias[0]))
}

// bracedKey puts braces around the column whose name is a reserved word. It is the first of those whose
// names end so.
func bracedKey(columns string) string { return strings.Replace(columns, "key,", "{key},", 1) }
