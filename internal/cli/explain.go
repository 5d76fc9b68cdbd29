package cli

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/broker"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/guarantee"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/config"
	"github.com/waybill-go/waybill/internal/ops"
)

// storeExplainer is a store that can describe, from the live database, what its commits survive.
type storeExplainer interface {
	Explain(ctx context.Context) ([]guarantee.Fact, error)
}

// hopFact is a fact about one hop of a route: store, relay, broker or consumer.
type hopFact struct {
	hop string
	guarantee.Fact
}

func (p *program) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain TOPIC",
		Short: "Show the guarantees of a topic's route, and the settings behind them",
		Long: `Show what is guaranteed on the route of a topic from the store over the relay and the broker to a
consumer: durability, order, duplicates, size and delay, with the settings that each hangs on and
what would strengthen it. Settings are read from the live servers where they tell; which relays run,
and which consumers have dead letters of the topic, from the store. Nothing is
stored, published or declared.`,
		Args: takes(1),
		RunE: does(func(cmd *cobra.Command, args []string) error { return p.explain(cmd, args[0]) }),
	}
}

func (p *program) explain(cmd *cobra.Command, topic string) error {
	store, cfg, err := p.openStore(cmd)
	if err != nil {
		return err
	}
	defer store.Close()
	brokers, err := brokersOf(cfg, topic)
	if err != nil {
		return err
	}
	facts, err := storeFacts(cmd.Context(), store)
	if err != nil {
		return err
	}
	seen, err := seenOn(cmd.Context(), store, topic)
	if err != nil {
		return err
	}
	facts = append(facts, seen.relays()...)
	facts = append(facts, relayFacts(cfg)...)
	for _, b := range brokers {
		more, err := factsOf(cmd.Context(), b, topic)
		if err != nil {
			return err
		}
		facts = append(facts, more...)
	}
	facts = append(facts, seen.consumers()...)
	return p.printFacts(topic, append(facts, consumerFacts(cfg)...))
}

// running is what a store knows about the processes that work on a topic.
type running struct {
	schema bool // there is a store; otherwise nothing is known
	nodes  []inspect.RelayState
	groups []deadletter.Group // of the topic
}

// seenGroups bounds the groups of dead letters that are searched for consumers.
const seenGroups = 1000

func seenOn(ctx context.Context, store opener.Store, topic string) (seen running, err error) {
	version, err := store.SchemaVersion(ctx)
	if seen.schema = version > 0; err != nil || !seen.schema {
		return seen, err
	}
	if seen.nodes, err = store.RelayStates(ctx); err != nil {
		return seen, err
	}
	seen.groups, err = store.DeadLetterGroups(ctx, seenGroups)
	seen.groups = slices.DeleteFunc(seen.groups, func(g deadletter.Group) bool {
		return g.Origin != deadletter.FromConsumer || g.Topic != topic
	})
	return seen, err
}

// relays returns the relays that publish. Running relays register their names and leases, not their
// settings.
func (r running) relays() []hopFact {
	var alive []string
	for _, n := range r.nodes {
		if n.Alive {
			alive = append(alive, n.Node)
		}
	}
	f := guarantee.Fact{About: guarantee.Delay, Setting: "relays", Value: strings.Join(alive, ", "),
		Means: "running now; relay.… is what this configuration says, a relay does not register its settings"}
	switch {
	case !r.schema:
		f.Value, f.Means, f.Stronger = "none", "the store has no schema yet, so nothing runs", "waybill migrate"
	case len(alive) == 0:
		f.Value, f.Means, f.Stronger = "none", "no relay runs, so nothing is published; relay.… is what one with this configuration would do", "waybill relay"
	}
	return about("relay", f)
}

// consumers returns the consumers that are known to receive the topic. Consumers do not register; only
// their open dead letters are known without reading the inbox.
func (r running) consumers() []hopFact {
	var names []string
	for _, g := range r.groups {
		names = append(names, g.Consumer)
	}
	slices.Sort(names)
	f := guarantee.Fact{About: guarantee.Delay, Setting: "consumers", Value: strings.Join(slices.Compact(names), ", "),
		Means: "have open dead letters of the topic; consumers do not register, so the store does not tell whether they run"}
	if len(names) == 0 {
		f.Value, f.Means = "none seen", "consumers do not register, and no open dead letter of the topic names one; the settings below are defaults"
	}
	return about("consumer", f)
}

// namedBroker is a broker that a topic goes to.
type namedBroker struct {
	hop string
	cfg opener.BrokerConfig
}

// brokersOf returns where the relay of a configuration publishes a topic: to one broker, or to each route
// that takes it, or to the broker if no route takes it. Webhooks are omitted.
func brokersOf(cfg *config.Config, topic string) ([]namedBroker, error) {
	hooks, err := webhooksConfig(cfg)
	if err != nil {
		return nil, err
	}
	var list []namedBroker
	for _, r := range cfg.Routes() {
		if slices.ContainsFunc(patterns(r.Topics), func(p broker.Pattern) bool { return p.Match(topic) }) {
			list = append(list, namedBroker{"broker " + r.Name, brokerAt(cfg, r.Broker, hooks)})
		}
	}
	if len(list) > 0 {
		return list, nil
	}
	c, err := brokerConfig(cfg)
	return []namedBroker{{"broker", c}}, err
}

// factsOf opens a broker as it is, and asks it.
func factsOf(ctx context.Context, b namedBroker, topic string) ([]hopFact, error) {
	b.cfg.DeclareNothing = true
	open, err := opener.ReachBroker(ctx, b.cfg)
	if err != nil {
		return nil, err
	}
	defer open.Close()
	facts, err := brokerFacts(ctx, open, topic)
	return about(b.hop, facts...), err
}

// about assigns facts to a hop.
func about(hop string, facts ...guarantee.Fact) []hopFact {
	list := make([]hopFact, len(facts))
	for i, f := range facts {
		list[i] = hopFact{hop, f}
	}
	return list
}

func storeFacts(ctx context.Context, store opener.Store) ([]hopFact, error) {
	var facts []guarantee.Fact
	if e, is := store.(storeExplainer); is {
		var err error
		if facts, err = e.Explain(ctx); err != nil {
			return nil, err
		}
	}
	return about("store", append(facts,
		guarantee.Fact{About: guarantee.Order, Means: "enqueues of one key keep their order where the program serialises them"},
		guarantee.Fact{About: guarantee.Size, Value: bytesText(waybill.MaxPayloadLen), Means: "a larger payload is refused before it is stored"},
		guarantee.Fact{About: guarantee.Delay, Means: "DeliverAt waits in the store, for any time"},
	)...), nil
}

func relayFacts(cfg *config.Config) []hopFact {
	order := guarantee.Fact{About: guarantee.Order, Setting: "relay.order", Value: cfg.String("relay.order"),
		Means: "what follows a failed message of its key waits for it"}
	if order.Value == "skip" {
		order.Means, order.Stronger = "a failed message is overtaken by later ones of its key", "relay.order: block"
	}
	mode := guarantee.Fact{About: guarantee.Order, Setting: "relay.mode", Value: cfg.String("relay.mode"),
		Means: "one message of a key is on the wire at a time"}
	if mode.Value != "strict" {
		mode.Means = "a message that the broker refuses late is overtaken by those of its key in the same batch"
		mode.Stronger = "relay.mode: strict"
	}
	return about("relay", order, mode,
		guarantee.Fact{About: guarantee.Duplicates, Means: "a relay that dies between confirm and settlement has its messages published again"})
}

// brokerFacts are what the server reports, and for aspects that it does not report, what the adapter can
// do.
func brokerFacts(ctx context.Context, open opener.Broker, topic string) ([]guarantee.Fact, error) {
	var facts []guarantee.Fact
	if e, is := open.(broker.Explainer); is {
		var err error
		if facts, err = e.Explain(ctx, topic); opener.Undeclared(err) {
			facts = []guarantee.Fact{{About: guarantee.Durability, Setting: "stream", Value: "not there yet",
				Means: "a relay makes it when it starts", Stronger: "waybill topology apply, then look again"}}
		} else if err != nil {
			return nil, err
		}
	}
	if b, is := open.(broker.Broker); is {
		for _, f := range capabilityFacts(b.Capabilities()) {
			if !slices.ContainsFunc(facts, func(told guarantee.Fact) bool { return told.About == f.About }) {
				facts = append(facts, f)
			}
		}
	}
	return facts, nil
}

func capabilityFacts(c broker.Capabilities) []guarantee.Fact {
	order := guarantee.Fact{About: guarantee.Order, Means: map[broker.Order]string{
		broker.NoOrder:    "messages may arrive in any order",
		broker.OneReplica: "the order of publishing, while a group has one replica",
		broker.PerKey:     "the order of publishing per key, with any number of replicas",
	}[c.Order]}
	duplicates := guarantee.Fact{About: guarantee.Duplicates, Means: "there is no deduplication: a publish that is repeated is delivered twice"}
	if c.DedupWindow > 0 {
		duplicates.Value = ops.Age(c.DedupWindow)
		duplicates.Means = "a publish that is repeated within it is dropped; a later copy is delivered too"
	}
	size := guarantee.Fact{About: guarantee.Size, Value: "any", Means: "the adapter sets no limit"}
	if c.MaxPayload > 0 {
		size.Value, size.Means = bytesText(c.MaxPayload), "a larger payload is refused, and becomes a dead letter"
	}
	delay := guarantee.Fact{About: guarantee.Delay, Means: "a retry waits in the consumer's process"}
	if c.MaxDelay > 0 {
		delay.Means = "a retry waits on the server, longer ones in several steps"
		if c.MaxDelay < math.MaxInt64 {
			delay.Value = ops.Age(c.MaxDelay)
		}
	}
	return []guarantee.Fact{order, duplicates, size, delay}
}

func consumerFacts(cfg *config.Config) []hopFact {
	return about("consumer",
		guarantee.Fact{About: guarantee.Order, Setting: "consumer.Config.Order",
			Means: "a failed message is overtaken by later ones of its key, unless the program sets OrderByKey", Stronger: "consumer.Config.Order: OrderByKey"},
		guarantee.Fact{About: guarantee.Duplicates, Setting: "inbox.retention", Value: ops.Age(cfg.Duration("inbox.retention")),
			Means: "copies are skipped for so long, where effect and inbox record share a transaction"})
}

func bytesText(n int) string { return ops.Count(n) + " bytes" }

// survival is the text for a [guarantee.Survives].
var survival = map[guarantee.Survives]string{
	guarantee.Unknown: "", guarantee.Nothing: "nothing", guarantee.ProcessCrash: "process crash",
	guarantee.PowerLoss: "power loss", guarantee.NodeLoss: "node loss",
}

// factRow is a fact in the JSON output.
type factRow struct {
	About    guarantee.Aspect `json:"about"`
	Hop      string           `json:"hop"`
	Setting  string           `json:"setting"`
	Value    string           `json:"value"`
	Survives string           `json:"survives,omitempty"`
	Means    string           `json:"means"`
	Stronger string           `json:"stronger,omitempty"`
}

func factRowOf(f hopFact) factRow {
	return factRow{f.About, f.hop, f.Setting, f.Value, survival[f.Survives], f.Means, f.Stronger}
}

// aspects is the order in which they are shown.
var aspects = []guarantee.Aspect{guarantee.Durability, guarantee.Order, guarantee.Duplicates, guarantee.Size, guarantee.Delay}

// explained is a route in the JSON output.
type explained struct {
	Topic   string    `json:"topic"`
	Facts   []factRow `json:"facts"`
	Weakest []factRow `json:"weakest"` // that limit what a confirmed message survives
	Untold  []factRow `json:"untold"`  // of durability, that the server does not report
}

func (p *program) printFacts(topic string, facts []hopFact) error {
	slices.SortStableFunc(facts, func(a, b hopFact) int {
		return slices.Index(aspects, a.About) - slices.Index(aspects, b.About)
	})
	weakest, untold := weakLinks(facts)
	if p.json {
		return p.printJSON(explained{topic, rowsOf(facts), rowsOf(weakest), rowsOf(untold)})
	}
	var table [][]string
	for _, f := range facts {
		value := f.Value
		if value == "" && f.Setting != "" {
			value = "not told"
		}
		table = append(table, []string{string(f.About), f.hop, f.Setting, value, survival[f.Survives], f.Means + advice(f)})
	}
	if err := p.printTable([]string{"ABOUT", "HOP", "SETTING", "VALUE", "SURVIVES", "MEANS"}, table); err != nil {
		return err
	}
	return p.printWeakLinks(weakest, untold)
}

func rowsOf(facts []hopFact) []factRow {
	rows := []factRow{}
	for _, f := range facts {
		rows = append(rows, factRowOf(f))
	}
	return rows
}

// weakLinks returns what limits durability: the facts under which a message survives least, of these only
// those that can be strengthened if any can, and what the server does not report.
func weakLinks(facts []hopFact) (weakest, untold []hopFact) {
	least := guarantee.NodeLoss
	for _, f := range facts {
		if f.About == guarantee.Durability && f.Survives != guarantee.Unknown {
			least = min(least, f.Survives)
		}
	}
	for _, f := range facts {
		switch {
		case f.About != guarantee.Durability:
		case f.Survives == guarantee.Unknown:
			untold = append(untold, f)
		case f.Survives == least && least < guarantee.NodeLoss:
			weakest = append(weakest, f)
		}
	}
	if mendable := slices.DeleteFunc(slices.Clone(weakest), func(f hopFact) bool { return f.Stronger == "" }); len(mendable) > 0 {
		weakest = mendable
	}
	return weakest, untold
}

func (p *program) printWeakLinks(weakest, untold []hopFact) error {
	var text strings.Builder
	for _, f := range weakest {
		fmt.Fprintf(&text, "Weakest link: %s, survives %s%s\n", linkName(f), survival[f.Survives], advice(f))
	}
	for _, f := range untold {
		fmt.Fprintf(&text, "The server does not tell: %s%s\n", linkName(f), advice(f))
	}
	if text.Len() == 0 {
		return nil
	}
	_, err := fmt.Fprint(p.stdout, "\n"+text.String())
	return err
}

func linkName(f hopFact) string {
	if f.Setting == "" {
		return "the " + f.hop
	}
	return "the " + f.hop + "'s " + f.Setting
}

func advice(f hopFact) string {
	if f.Stronger == "" {
		return ""
	}
	return " → " + f.Stronger
}
