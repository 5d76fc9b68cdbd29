package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/ops"
)

// infoServer speaks as much of Redis' protocol as it takes to be asked for INFO, and returns
// its URL.
func infoServer(t *testing.T, info string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answerInfo(c, info)
		}
	}()
	return "redis://:s3cr3t@" + l.Addr().String()
}

// answerInfo reads commands, each a list of texts, and answers INFO and AUTH.
func answerInfo(c net.Conn, info string) {
	defer c.Close()
	for r := bufio.NewReader(c); ; {
		var texts, length int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &texts); err != nil {
			return
		}
		command := make([]string, texts)
		for i := range command {
			if _, err := fmt.Fscanf(r, "$%d\r\n", &length); err != nil {
				return
			}
			text := make([]byte, length+2)
			if _, err := io.ReadFull(r, text); err != nil {
				return
			}
			command[i] = strings.ToUpper(string(text[:length]))
		}
		switch command[0] {
		case "INFO":
			fmt.Fprintf(c, "$%d\r\n%s\r\n", len(info), info)
		case "AUTH":
			fmt.Fprint(c, "+OK\r\n")
		default:
			fmt.Fprint(c, "-ERR unknown command\r\n")
		}
	}
}

// TestDoctor_Redis: the doctor says whether Redis may forget keys, and what to do then.
func TestDoctor_Redis(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]finding{
		"noeviction":   passing("eviction", "maxmemory-policy is noeviction: a full memory refuses, and forgets nothing"),
		"volatile-lru": warning("eviction", "maxmemory-policy is volatile-lru: when the memory is full keys are forgotten, and processed again", "run CONFIG SET maxmemory-policy noeviction, and set it in redis.conf"),
		"":             noting("eviction", "the server does not say its maxmemory-policy", "see that it is noeviction"),
	} {
		info := "# Memory\r\nused_memory:1\r\n"
		if policy != "" {
			info += "maxmemory_policy:" + policy + "\r\n"
		}
		r := runProgram(t.Context(), nil, "doctor", "--json", "--store", infoServer(t, info))
		var findings []finding
		if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil || r.code != 0 {
			t.Fatalf("%q: exit code %d, %v: %s%s", policy, r.code, err, r.stdout, r.stderr)
		}
		wants(t, findings, want.Severity, want.Subject, want.Found, want.Advice)
		wants(t, findings, ops.OK, "store", "Redis at redis://…, for leases", "")
		if strings.Contains(r.stdout, "s3cr3t") {
			t.Errorf("%q: the password is disclosed: %s", policy, r.stdout)
		}
	}
	r := runProgram(t.Context(), nil, "doctor", "--json", "--store", "redis://127.0.0.1:1")
	if r.code != 1 || !strings.Contains(r.stdout, "start it, or correct --store") {
		t.Errorf("nobody there: exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
}
