package cli

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/guarantee"
)

// explainOn runs explain on a store and a broker.
func explainOn(t *testing.T, store, broker string, more ...string) explained {
	t.Helper()
	args := append([]string{"explain", "orders", "--json", "--store", store, "--broker", broker}, more...)
	r := runProgram(t.Context(), nil, args...)
	var e explained
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != exitOK {
		t.Fatalf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	return e
}

// weakest returns the settings of the weakest links.
func (e explained) weakest() string {
	var list []string
	for _, f := range e.Weakest {
		list = append(list, f.Hop+" "+f.Setting+" "+f.Value)
	}
	return strings.Join(list, ", ")
}

// TestExplain reads the settings of live servers.
func TestExplain(t *testing.T) {
	t.Parallel()
	file := "sqlite:" + t.TempDir() + "/x.db"
	if r := runProgram(t.Context(), nil, "migrate", "--store", file); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	off := postgresURL() + "&options=-csynchronous_commit%3Doff"
	exchange := []string{"--rabbitmq-exchange", "cli-" + waybill.NewID()}
	for _, test := range []struct {
		store, broker, want string
		more                []string
	}{
		{off, rabbitURL(), "store synchronous_commit off", exchange},
		{file, rabbitURL(), "broker x-queue-type classic", append([]string{"--rabbitmq-queue-type", "classic"}, exchange...)},
		{file, rabbitURL(), "store journal_mode wal, store synchronous full, broker x-queue-type quorum", exchange},
		{file, "mem:", "broker  ", nil},
	} {
		e := explainOn(t, test.store, test.broker, test.more...)
		if got := e.weakest(); got != test.want {
			t.Errorf("weakest is %q, want %q", got, test.want)
		}
		for _, hop := range []string{"store", "relay", "broker", "consumer"} {
			if !strings.Contains(e.hops(), hop) {
				t.Errorf("nothing is told of the %s", hop)
			}
		}
	}
	e := explainOn(t, file, rabbitURL(), exchange...)
	if !slices.ContainsFunc(e.Untold, func(f factRow) bool { return f.Setting == "nodes of the cluster" }) {
		t.Errorf("untold is %+v, want how many nodes RabbitMQ has", e.Untold)
	}
	r := runProgram(t.Context(), nil, "explain", "orders", "--store", file, "--broker", "mem:")
	if !strings.Contains(r.stdout, "\nWeakest link: the broker, survives nothing\n") {
		t.Errorf("%s%s lacks the weakest link", r.stdout, r.stderr)
	}
}

func (e explained) hops() string {
	var list []string
	for _, f := range e.Facts {
		list = append(list, f.Hop)
	}
	return strings.Join(list, " ")
}

// TestExplain_Routes: what is told is of the broker that the topic goes to. One that has no stream yet is
// told of as far as that goes.
func TestExplain_Routes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, file := "sqlite:"+dir+"/x.db", dir+"/waybill.yaml"
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	name := "cli-" + waybill.NewID()
	text := "nats: {stream: " + name + ", subject_prefix: " + name + ".}\nroutes:\n" +
		"  - {name: events, broker: \"" + natsURL() + "\", topics: [\"order*\"]}\n" +
		"  - {name: other, broker: \"amqp://127.0.0.1:1/\", topics: [other]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runProgram(t.Context(), nil, "explain", "orders", "--json", "--store", store, "--config", file)
	var e explained
	if err := json.Unmarshal([]byte(r.stdout), &e); err != nil || r.code != exitOK {
		t.Fatalf("exit code %d, %s%s", r.code, r.stdout, r.stderr)
	}
	if !strings.Contains(e.hops(), "broker events") || strings.Contains(e.hops(), "other") {
		t.Errorf("hops are %s, want the route events and no other", e.hops())
	}
	if !slices.ContainsFunc(e.Untold, func(f factRow) bool { return f.Setting == "stream" }) {
		t.Errorf("untold is %+v, want that the stream is not there yet", e.Untold)
	}
}

func TestWeakLinks(t *testing.T) {
	t.Parallel()
	fact := func(setting string, s guarantee.Survives, stronger string) hopFact {
		return hopFact{"broker", guarantee.Fact{About: guarantee.Durability, Setting: setting, Survives: s, Stronger: stronger}}
	}
	weakest, untold := weakLinks([]hopFact{
		fact("a", guarantee.PowerLoss, "b"), fact("c", guarantee.PowerLoss, ""), fact("d", guarantee.NodeLoss, ""), fact("e", guarantee.Unknown, "f"),
	})
	if len(weakest) != 1 || weakest[0].Setting != "a" || len(untold) != 1 || untold[0].Setting != "e" {
		t.Errorf("weakLinks() = %+v, %+v, want a and e", weakest, untold)
	}
}
