package cli

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/inspect"
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
				t.Errorf("nothing is shown of the %s", hop)
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

// TestExplain_Routes: the facts shown are those of the broker that the topic goes to. One that has no stream yet
// is described as far as that goes.
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

// TestRunning: what runs is read from the store, and it is said plainly if nothing does.
func TestRunning(t *testing.T) {
	t.Parallel()
	letter := deadletter.Group{Origin: deadletter.FromConsumer, Topic: "orders", Consumer: "billing"}
	for _, tt := range []struct {
		name              string
		seen              running
		relays, consumers string
	}{
		{"no schema", running{}, "none → waybill migrate", "none seen"},
		{"nothing", running{schema: true}, "none → waybill relay", "none seen"},
		{"dead, and no owner", running{schema: true, nodes: []inspect.RelayState{{}, {Node: "a"}}}, "none → waybill relay", "none seen"},
		{"two", running{schema: true, nodes: []inspect.RelayState{{Node: "a", Alive: true}, {Node: "b", Alive: true}}, groups: []deadletter.Group{letter, letter}}, "a, b", "billing"},
	} {
		for i, f := range append(tt.seen.relays(), tt.seen.consumers()...) {
			if got, want := f.Value+advice(f), []string{tt.relays, tt.consumers}[i]; got != want {
				t.Errorf("%s: the %s is %q, want %q", tt.name, f.hop, got, want)
			}
		}
	}
}

// TestExplain_Running: a relay that runs is named, and one that does not is missed.
func TestExplain_Running(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + t.TempDir() + "/x.db"
	relays := func() string {
		for _, f := range explainOn(t, store, "mem:").Facts {
			if f.Setting == "relays" {
				return f.Value
			}
		}
		return ""
	}
	if r := runProgram(t.Context(), nil, "migrate", "--store", store); r.code != exitOK {
		t.Fatal(r.stderr)
	}
	if got := relays(); got != "none" {
		t.Errorf("relays are %q before one runs, want none", got)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- runProgram(ctx, nil, "relay", "--store", store, "--broker", "amqp://127.0.0.1:1/", "--relay-node", "relay-a") // a broker that is away is waited for
	}()
	waitFor(t, "the relay is named", func() bool { return relays() == "relay-a" })
	stop()
	<-ended
	if got := relays(); got != "none" {
		t.Errorf("relays are %q after it has ended, want none", got)
	}
}
