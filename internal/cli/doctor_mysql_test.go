package cli

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// mysqlAt is the URL of a database, as a user or as its owner.
func mysqlAt(user, database string) string {
	return "mysql://" + user + "@" + mysqlHost() + "/" + database
}

func mysqlHost() string {
	if _, address, found := strings.Cut(os.Getenv("MYSQL_URL"), "tcp("); found {
		host, _, _ := strings.Cut(address, ")")
		return host
	}
	return "127.0.0.1:3306"
}

// TestDoctor_RolesOfMySQL: what is granted to a role is enough for what the doctor looks at.
func TestDoctor_RolesOfMySQL(t *testing.T) {
	t.Parallel()
	name := "cli_" + waybill.NewID()[24:]
	owner, _, err := opener.OpenSQL(t.Context(), opener.StoreConfig{URL: mysqlAt("root", "mysql")})
	if err != nil {
		t.Fatalf("MariaDB does not answer (%v); start it with: make services", err)
	}
	do := func(stmt string) error {
		_, err := owner.ExecContext(context.Background(), stmt)
		return err
	}
	must := func(stmt string) {
		t.Helper()
		if err := do(stmt); err != nil {
			t.Fatalf("%s: %v", stmt, err)
		}
	}
	must("CREATE DATABASE " + name)
	t.Cleanup(func() { must("DROP DATABASE " + name); owner.Close() })
	if r := runProgram(t.Context(), nil, "migrate", "--store", mysqlAt("root", name)); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	script := runProgram(t.Context(), nil, "roles", "--store", mysqlAt("root", name), "--prefix", name+"_").stdout
	qualified := strings.NewReplacer(" ON `", " ON "+name+".`", " ON PROCEDURE `", " ON PROCEDURE "+name+".`").Replace(script)
	for stmt := range strings.SplitSeq(qualified, ";\n") {
		if strings.TrimSpace(stmt) != "" {
			must(stmt)
		}
	}
	for _, role := range mysqlstore.Roles() {
		user, of := name+"_u_"+string(role), name+"_"+string(role)
		t.Cleanup(func() { must("DROP USER " + user); must("DROP ROLE " + of) })
		must("CREATE USER " + user + " IDENTIFIED BY 'pw'")
		must("GRANT " + of + " TO " + user)
		if err := do("SET DEFAULT ROLE " + of + " FOR " + user); err != nil {
			must("SET DEFAULT ROLE " + of + " TO " + user) // as MySQL has it
		}
		r := runProgram(t.Context(), nil, "doctor", "--store", mysqlAt(user+":pw", name), "--as", string(role))
		if r.code != exitOK || strings.Contains(r.stdout, "problem") {
			t.Errorf("doctor --as %s: exit code %d, %s%s", role, r.code, r.stdout, r.stderr)
		}
	}
}
