package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
)

// Ledger is what was counted when the show was over: in tables, in the store's own view and
// on the broker, never in variables of the programs that took part.
type Ledger struct {
	Store    string   `json:"store"`
	Broker   string   `json:"broker"`
	Broken   string   `json:"broken,omitempty"` // the part that was removed
	Killed   Deaths   `json:"killed"`
	Lines    []Line   `json:"lines"`
	Balances bool     `json:"balances"`
	Off      []string `json:"off"` // the names of the lines that are wrong
	Seconds  float64  `json:"seconds"`
}

// Deaths counts the processes that were killed.
type Deaths struct {
	Shop  int `json:"shop"`
	Relay int `json:"relay"`
}

// Line is one figure.
type Line struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Want  *int   `json:"want,omitempty"` // what it must be; nil if any value is right
	From  string `json:"from"`           // where it was counted
}

// OK reports whether the figure is what it must be.
func (l Line) OK() bool { return l.Want == nil || *l.Want == l.Count }

// figures are the counts of a ledger.
type figures struct {
	orders, cents                           int
	enqueued, published, unpublished, given int
	held, different                         int
	letters                                 int
	effects                                 map[string]effects
}

// effects are what one consumer has done.
type effects struct {
	rows, orders, cents, undelivered int
}

const (
	sumOrdersSQL   = `SELECT count(*), coalesce(sum(cents), 0) FROM orders`
	sumInvoicesSQL = `SELECT count(*), count(DISTINCT number), coalesce(sum(cents), 0) FROM invoices`
	sumParcelsSQL  = `SELECT count(*), count(DISTINCT number), 0 FROM parcels`
)

// count draws up the ledger.
func (s *servers) count(ctx context.Context, cfg Config) (*Ledger, error) {
	var f figures
	for _, count := range []func(context.Context, *figures) error{s.countBusiness, s.countOutbox, s.countBroker, s.countLetters} {
		if err := count(ctx, &f); err != nil {
			return nil, fmt.Errorf("draw up the ledger: %w", err)
		}
	}
	l := &Ledger{Store: s.storeText, Broker: s.brokerText, Broken: cfg.Break, Lines: f.lines(cfg), Off: []string{}}
	for _, line := range l.Lines {
		if !line.OK() {
			l.Off = append(l.Off, line.Name)
		}
	}
	l.Balances = len(l.Off) == 0
	return l, nil
}

func (s *servers) countBusiness(ctx context.Context, f *figures) error {
	if err := s.place.db.QueryRowContext(ctx, sumOrdersSQL).Scan(&f.orders, &f.cents); err != nil {
		return err
	}
	f.effects = make(map[string]effects)
	for name, text := range map[string]string{Billing: sumInvoicesSQL, Shipping: sumParcelsSQL} {
		var e effects
		if err := s.place.db.QueryRowContext(ctx, text).Scan(&e.rows, &e.orders, &e.cents); err != nil {
			return err
		}
		var err error
		if e.undelivered, err = s.look.Backlog(ctx, name); err != nil {
			return err
		}
		f.effects[name] = e
	}
	return nil
}

func (s *servers) countOutbox(ctx context.Context, f *figures) error {
	stats, err := s.place.store.OutboxStats(ctx)
	if err != nil {
		return err
	}
	for _, st := range stats {
		if st.Consumer != "" {
			continue // a dead letter of a message that was published, and is counted so
		}
		n := int(st.Count)
		f.enqueued += n
		switch st.Status {
		case inspect.Published:
			f.published += n
		case inspect.Dead, inspect.Failed:
			f.given += n
		default:
			f.unpublished += n
		}
	}
	return nil
}

func (s *servers) countBroker(ctx context.Context, f *figures) (err error) {
	if f.held, err = s.look.Held(ctx); err != nil {
		return err
	}
	broker, err := s.site.broker(ctx)
	if err != nil {
		return err
	}
	defer broker.Close()
	f.different, err = different(ctx, broker, s.site, f.held)
	return err
}

func (s *servers) countLetters(ctx context.Context, f *figures) error {
	letters, err := s.place.store.DeadLetters(ctx, deadletter.Filter{Limit: maxLetters})
	f.letters = len(letters)
	return err
}

const maxLetters = 100_000

// lines turns figures into a ledger: what was counted, what it must be, and where it was
// counted.
func (f *figures) lines(cfg Config) []Line {
	must := func(name string, count, want int, from string) Line { return Line{name, count, &want, from} }
	may := func(name string, count int, from string) Line { return Line{name, count, nil, from} }
	lines := []Line{must("orders committed", f.orders, cfg.Orders, "table orders")}
	if cfg.Break != BreakOutbox {
		lines = append(lines,
			must("messages enqueued", f.enqueued, f.orders, "the outbox's view of all messages"),
			must("messages published", f.published, f.orders, "the same, status Published"),
			must("messages not yet published", f.unpublished, 0, "the same, other statuses"),
		)
	}
	lines = append(lines,
		must("different messages on the broker", f.different, f.orders, "the broker, read back"),
		may("extra copies on the broker", f.held-f.different, fmt.Sprintf("the broker holds %d in all", f.held)),
	)
	for _, name := range []string{Billing, Shipping} {
		lines = append(lines, f.effectLines(name, must, may)...)
	}
	return append(lines, must("dead letters", f.letters, 0, "table dead_letters"))
}

type makeLine func(name string, count, want int, from string) Line

func (f *figures) effectLines(name string, must makeLine, may func(string, int, string) Line) []Line {
	e := f.effects[name]
	noun, table := "invoices", "table invoices"
	if name == Shipping {
		noun, table = "parcels", "table parcels"
	}
	delivered := f.held - e.undelivered
	lines := []Line{
		must(name+": delivered", delivered, f.held, "the broker's count less its backlog for "+name),
		must(name+": duplicates absorbed", delivered-e.rows, f.held-f.different, "delivered less "+noun),
		must(name+": "+noun, e.rows, f.orders, table),
		must(name+": orders with "+noun, e.orders, f.orders, table+", different orders"),
	}
	if name == Billing {
		lines = append(lines, must(name+": cents invoiced", e.cents, f.cents, table+"; must be those of the orders"))
	}
	return lines
}

// Print prints the ledger, what it means, and what to do next.
func (l *Ledger) Print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "LEDGER\t%9s\t\tCOUNTED IN\n", "COUNT")
	for _, line := range l.Lines {
		fmt.Fprintf(table, "%s\t%9d\t%s\t%s\n", line.Name, line.Count, line.verdict(), line.From)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s", l.Verdict(), l.next())
	return err
}

// next says what to do after the demo. A ledger that fails has already said why.
func (l *Ledger) next() string {
	if !l.Balances {
		return ""
	}
	return `
Next: run it with --break inbox, or --break outbox, and see the ledger fail.
      Write your first program: README.md, and examples/first/main.go. All pages are in docs/.
      Watch your own messages in a browser: waybill dashboard --help
`
}

func (l Line) verdict() string {
	switch {
	case l.Want == nil:
		return ""
	case l.OK():
		return "ok"
	}
	return fmt.Sprintf("OFF by %+d", l.Count-*l.Want)
}

// Verdict says in a sentence or two what the ledger shows.
func (l *Ledger) Verdict() string {
	killed := fmt.Sprintf("%d processes were killed meanwhile", l.Killed.Shop+l.Killed.Relay)
	if l.Balances {
		return fmt.Sprintf("The ledger balances: each order has one invoice and one parcel, though %s (%.1f s).", killed, l.Seconds)
	}
	text := fmt.Sprintf("The ledger does not balance (%.1f s). Off: %s.", l.Seconds, strings.Join(l.Off, "; "))
	switch l.Broken {
	case BreakInbox:
		text += "\nWithout the inbox each redelivery is an effect: customers pay twice."
	case BreakOutbox:
		text += "\nWithout the outbox a shop that dies after its commit has saved and never told: those orders are lost to everybody else."
	}
	return text
}
