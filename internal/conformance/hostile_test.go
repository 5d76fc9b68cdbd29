package conformance

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/observe"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/mysqlstore"
	"github.com/waybill-go/waybill/store/pgstore"
	"github.com/waybill-go/waybill/store/sqlitestore"
)

// hostile is a database into which somebody writes who may do nothing but insert.
type hostile struct {
	*testing.T
	store interface {
		contract.Source
		inspect.Outbox
		DeadLetters(ctx context.Context, f deadletter.Filter) ([]deadletter.Letter, error)
	}
	writer, owner *sql.DB
	table         func(name string) string
	lanes         int
	key           string                          // the quoted name of the column
	mark          func(n int) string              // of the nth argument
	bytes         bool                            // texts may be any bytes
	longest       func(column string) int         // what a column holds, 0 for anything
	time          func(rng *rand.Rand) (v any)    // any value that may be given as a time
	yes           any                             // true
	refused       func(err error) bool            // whether an INSERT failed for what is in it
	extra         map[string]func(*rand.Rand) any // columns of scheduled that are only there
	migrate       func() error
}

// messageLimits are the columns of texts with their limits in bytes.
var messageLimits = map[string]int{
	"id": 255, "topic": 249, "key": 255, "type": 255, "source": 255, "tenant": 64, "subject": 255, "content_type": 1024, "data_schema": 1024,
	"correlation_id": 255, "causation_id": 255, "idempotency_key": 255, "trace_parent": 512, "trace_state": 512,
}

var messageColumns = []string{
	"id", "topic", "direct", "key", "type", "source", "tenant", "subject", "payload", "payload_bytes", "content_type", "data_schema", "headers",
	"correlation_id", "causation_id", "idempotency_key", "trace_parent", "trace_state", "time", "deliver_at", "expires_at",
}

// hostileRow is the values of a row by column. suspect says that the database is likely to refuse it.
type hostileRow struct {
	values  map[string]any
	suspect bool
}

func postgresHostile(t *testing.T, version int) *hostile {
	p := newPostgres(t, nil, pgstore.Config{})
	cfg := pgstore.Config{Schema: "t_" + randomName()}
	store, err := pgstore.New(p.pool, cfg)
	must(t, err)
	t.Cleanup(func() { p.drop(t, cfg) })
	_, err = store.Migrate(t.Context(), pgstore.MigrateOptions{LockWait: patience, Version: version})
	must(t, err)
	role := "w" + randomName()
	for _, stmt := range []string{
		"CREATE ROLE " + role, "GRANT USAGE ON SCHEMA " + cfg.Schema + " TO " + role,
		"GRANT INSERT ON " + tableOf(cfg, "outbox") + ", " + tableOf(cfg, "scheduled") + " TO " + role,
	} {
		_, err := p.pool.Exec(t.Context(), stmt)
		must(t, err)
	}
	t.Cleanup(func() {
		_, err := p.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		must(t, err)
	})
	config := p.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["role"] = role
	writer := stdlib.OpenDB(*config)
	t.Cleanup(func() { writer.Close() })
	return &hostile{
		T: t, store: store, writer: writer, owner: p.db, lanes: 64, key: "key", yes: true,
		table:   func(name string) string { return tableOf(cfg, name) },
		mark:    func(n int) string { return fmt.Sprintf("$%d", n) },
		longest: func(column string) int { return map[string]int{"id": 255, "topic": 249, "key": 255}[column] },
		time: func(rng *rand.Rand) any {
			return pick(rng, "infinity", "-infinity", "4713-01-02 BC", "294276-12-31", "1969-12-31", "10000-01-01", "2001-02-03")
		},
		refused: func(err error) bool {
			var pg *pgconn.PgError
			return errors.As(err, &pg) && (pg.Code[:2] == "22" || pg.Code[:2] == "23" || pg.Code == "54000")
		},
		extra: map[string]func(*rand.Rand) any{"lane": func(rng *rand.Rand) any { return rng.IntN(1000) }},
		migrate: func() error {
			_, err := store.Migrate(context.Background(), pgstore.MigrateOptions{LockWait: patience})
			return err
		},
	}
}

func mysqlHostile(t *testing.T, version int) *hostile {
	m := newMySQL(t, nil, mysqlstore.Config{})
	s := m.create(t)
	t.Cleanup(func() { m.drop(t, s) })
	_, err := s.Migrate(t.Context(), mysqlstore.MigrateOptions{LockWait: patience, Version: version})
	must(t, err)
	role := "w" + randomName()
	must(t, s.exec("CREATE USER "+role+" IDENTIFIED BY 'pw'"))
	t.Cleanup(func() { _ = s.exec("DROP USER " + role) })
	for _, table := range []string{"outbox", "scheduled"} {
		columns := "id, topic, direct, `key`, type, source, tenant, subject, payload, payload_bytes, content_type, data_schema, headers, correlation_id, causation_id, idempotency_key, trace_parent, trace_state, time, deliver_at, expires_at, enqueued_at"
		if table == "scheduled" {
			columns += ", due_at"
			if version != 0 {
				columns += ", position"
			}
		}
		must(t, s.exec("GRANT INSERT ("+columns+") ON "+s.table(table)+" TO "+role))
	}
	login, err := mysql.ParseDSN(mysqlURL())
	must(t, err)
	login.User, login.Passwd, login.DBName = role, "pw", s.name
	writer, err := sql.Open("mysql", login.FormatDSN())
	must(t, err)
	t.Cleanup(func() { writer.Close() })
	return &hostile{
		T: t, store: s, writer: writer, owner: s.db, table: s.table, lanes: 64, key: "`key`", bytes: true, yes: 1,
		mark:    func(int) string { return "?" },
		longest: func(column string) int { return messageLimits[column] + 1 },
		time:    anyMicros,
		refused: func(err error) bool {
			var refused *mysql.MySQLError
			return errors.As(err, &refused)
		},
		migrate: func() error {
			_, err := s.Migrate(context.Background(), mysqlstore.MigrateOptions{LockWait: patience})
			return err
		},
	}
}

func sqliteHostile(t *testing.T, version int) *hostile {
	s := openSQLite(t, filepath.Join(t.TempDir(), "test.db"), sqliteWaits+"&_txlock=immediate", sqlitestore.Config{})
	_, err := s.Migrate(t.Context(), sqlitestore.MigrateOptions{Version: version})
	must(t, err)
	return &hostile{
		T: t, store: s, writer: s.db, owner: s.db, table: s.table, lanes: 1, key: "key", bytes: true, yes: 1,
		mark:    func(int) string { return "?" },
		longest: func(column string) int { return map[string]int{"id": 255, "topic": 249, "key": 255}[column] },
		time:    anyMicros,
		refused: func(err error) bool { return strings.Contains(err.Error(), "constraint failed") },
		extra:   map[string]func(*rand.Rand) any{"position": func(rng *rand.Rand) any { return -rng.Int64() }},
		migrate: func() error {
			_, err := s.Migrate(context.Background(), sqlitestore.MigrateOptions{})
			return err
		},
	}
}

func anyMicros(rng *rand.Rand) any {
	return pick[any](rng, int64(0), int64(-1), int64(math.MinInt64), int64(math.MaxInt64), int64(253402300800000000), int64(1e15))
}

func pick[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// row makes a message and spoils up to three of its attributes, by length, bytes, time or headers.
func (h *hostile) row(rng *rand.Rand, n int) hostileRow {
	r := hostileRow{values: map[string]any{
		"id": fmt.Sprintf("bad-%d", n), "topic": pick(rng, "orders", "invoices"), "key": pick(rng, "", "", fmt.Sprint("k", rng.IntN(20))),
		"payload": "p", "type": "t", "tenant": "default", "source": "stranger",
	}}
	for range rng.IntN(4) {
		h.spoil(rng, &r)
	}
	return r
}

func (h *hostile) spoil(rng *rand.Rand, r *hostileRow) {
	switch column := messageColumns[rng.IntN(len(messageColumns))]; column {
	case "direct":
		r.values[column] = h.yes
	case "payload":
		r.values[column] = pick[any](rng, nil, "", strings.Repeat("x", 5000))
	case "payload_bytes":
		r.values["payload"], r.values[column] = pick[any](rng, nil, nil, "both"), []byte{0, 0xff, byte(n8(rng))}
		r.suspect = r.suspect || r.values["payload"] != nil
	case "headers":
		r.values[column] = h.headers(rng)
	case "time", "deliver_at", "expires_at":
		r.values[column] = h.time(rng)
		text, _ := r.values[column].(string)
		r.suspect = r.suspect || strings.Contains(text, "infinity")
	default:
		limit, longest := messageLimits[column], h.longest(column)
		length := pick(rng, 0, 1, limit-1, limit, limit+1, limit+1, limit+2, 2700, 9600)
		r.values[column] = h.text(rng, length)
		r.suspect = r.suspect || longest > 0 && length > longest || column == "id" && length == 0
	}
}

func randomName() string { return strings.ReplaceAll(waybill.NewID(), "-", "")[12:] }

func n8(rng *rand.Rand) int { return rng.IntN(256) }

// text returns a text of some bytes that does not compress.
func (h *hostile) text(rng *rand.Rand, length int) string {
	var b strings.Builder
	kind := rng.IntN(5)
	for b.Len() < length {
		switch {
		case kind == 1 && length-b.Len() >= 4:
			b.WriteRune(rune(0x1f300 + rng.IntN(600)))
		case kind == 2:
			b.WriteString(pick(rng, "'", `\`, `"`, "\n", "\x7f", "%", "$1", "\x01")[:1])
		case kind == 3 && h.bytes:
			b.WriteByte(byte(n8(rng)))
		default:
			b.WriteByte(byte('0' + rng.IntN(74)))
		}
	}
	return b.String()
}

func (h *hostile) headers(rng *rand.Rand) any {
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprintf(`"h%d":"v"`, i)
	}
	odd := []string{
		"{}", "[]", "1", `"x"`, "null", `{"x":1}`, `{"X":"1"}`, `{"ce-id":"1"}`, `{"x":{"y":[1]}}`, `{"":"1"}`, `{"x":"` + h.ascii(rng, 20000) + `"}`,
		"{" + strings.Join(many, ",") + "}", strings.Repeat("[", 500) + strings.Repeat("]", 500), `{"x":"y"}`,
	}
	if h.bytes {
		odd = append(odd, "", "{", "x\x00", `{"x":"`, "[[[")
	}
	return pick(rng, odd...)
}

func (h *hostile) ascii(rng *rand.Rand, length int) string {
	b := make([]byte, length)
	for i := range b {
		b[i] = byte('a' + rng.IntN(26))
	}
	return string(b)
}

// insert stores rows as the writer, many with one statement, and returns how many the database took.
func (h *hostile) insert(rng *rand.Rand, table string, rows []hostileRow) (taken int) {
	h.Helper()
	suspects := slices.DeleteFunc(slices.Clone(rows), func(r hostileRow) bool { return !r.suspect })
	for some := range slices.Chunk(slices.DeleteFunc(slices.Clone(rows), func(r hostileRow) bool { return r.suspect }), 200) {
		taken += h.insertSome(rng, table, some)
	}
	for _, r := range suspects {
		taken += h.insertSome(rng, table, []hostileRow{r})
	}
	return taken
}

func (h *hostile) insertSome(rng *rand.Rand, table string, rows []hostileRow) (taken int) {
	h.Helper()
	stmt, args := h.statement(rng, table, rows)
	_, err := h.writer.ExecContext(h.Context(), stmt, args...)
	switch {
	case err == nil:
		return len(rows)
	case !h.refused(err):
		h.Fatalf("INSERT of %d rows: %v", len(rows), err)
	case len(rows) == 1:
		return 0
	}
	return h.insertSome(rng, table, rows[:len(rows)/2]) + h.insertSome(rng, table, rows[len(rows)/2:])
}

func (h *hostile) statement(rng *rand.Rand, table string, rows []hostileRow) (stmt string, args []any) {
	columns := slices.Clone(messageColumns)
	extra := map[string]func(*rand.Rand) any{}
	if table == "scheduled" {
		extra["due_at"], extra["enqueued_at"] = func(*rand.Rand) any { return h.past() }, func(*rand.Rand) any { return h.past() }
		for name, value := range h.extra {
			extra[name] = value
		}
		for name := range extra {
			columns = append(columns, name)
		}
	}
	var tuples []string
	for _, r := range rows {
		var marks []string
		for _, c := range columns {
			v, given := r.values[c]
			switch {
			case given:
			case extra[c] != nil:
				v = extra[c](rng)
			default:
				v = h.standard(c)
			}
			args = append(args, v)
			marks = append(marks, h.mark(len(args)))
		}
		tuples = append(tuples, "("+strings.Join(marks, ", ")+")")
	}
	list := strings.Replace(strings.Join(columns, ", "), ", key,", ", "+h.key+",", 1)
	return "INSERT INTO " + h.table(table) + " (" + list + ") VALUES " + strings.Join(tuples, ", "), args
}

// past is a time, as the database takes it.
func (h *hostile) past() any {
	if h.yes == true {
		return "2001-02-03"
	}
	return int64(1e15)
}

func (h *hostile) standard(column string) any {
	switch column {
	case "direct":
		if h.yes == true {
			return false
		}
		return 0
	case "payload", "payload_bytes", "headers", "time", "deliver_at", "expires_at":
		return nil
	case "content_type":
		return "application/json"
	}
	return ""
}

// good returns a message for each lane.
func (h *hostile) good() (rows []hostileRow) {
	for lane, n := 0, 0; lane < h.lanes; n++ {
		id := fmt.Sprintf("good-%d", n)
		if sum := sha256.Sum256([]byte(id)); int(sum[0])&(h.lanes-1) == lane {
			rows = append(rows, hostileRow{values: map[string]any{"id": id, "topic": "good", "payload": "{}"}})
			lane++
		}
	}
	return rows
}

func (h *hostile) count(table string) (n int) {
	h.Helper()
	must(h.T, h.owner.QueryRow("SELECT count(*) FROM "+h.table(table)).Scan(&n))
	return n
}

// watched is a source and a publisher that note in which order things happen.
type watched struct {
	contract.Source
	mu      sync.Mutex
	steps   int
	good    int // published so far
	goodAt  int // step at which the last good message was published
	badAt   int // step at which the last bad one was settled
	settled chan struct{}
}

func (w *watched) Send(_ context.Context, msgs []contract.Outgoing) func() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range msgs {
		if w.steps++; m.Topic == "good" {
			w.good++
			w.goodAt = w.steps
		}
	}
	return func() []error { return make([]error, len(msgs)) }
}

func (w *watched) SettleMessages(ctx context.Context, req contract.SettleRequest) ([]int, error) {
	lost, err := w.Source.SettleMessages(ctx, req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps++; err != nil {
		return lost, err
	}
	if slices.ContainsFunc(req.Settlements, func(st contract.Settlement) bool { return st.Claim.Message.Topic != "good" }) {
		w.badAt = w.steps
	}
	select {
	case w.settled <- struct{}{}:
	default:
	}
	return lost, nil
}

// drain runs a relay until nothing waits to be published, or nothing has been settled for long.
func (h *hostile) drain() *watched {
	h.Helper()
	w := &watched{Source: h.store, settled: make(chan struct{}, 1)}
	r, err := relay.New(w, w, relay.Config{Node: "r1", PollInterval: 100 * time.Millisecond, Observer: observe.LogTo(slog.New(slog.DiscardHandler))})
	must(h.T, err)
	ctx, cancel := context.WithCancel(h.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	standstill := time.NewTimer(patience)
	defer standstill.Stop()
	for moves := true; moves && h.count("outbox")+h.count("outbox_waiting")+h.count("scheduled") > 0; {
		select {
		case <-w.settled:
			standstill.Reset(patience)
		case <-time.After(100 * time.Millisecond): // what is scheduled is released without a settlement
		case <-standstill.C:
			moves = false
			h.Errorf("the relay settles nothing more: %v", r.Status().LastError)
		}
	}
	cancel()
	must(h.T, <-ended)
	return w
}

// check holds that every row that was taken came to an end, and that operators can look at all of it.
func (h *hostile) check(taken int) {
	h.Helper()
	published, dead := h.count("outbox_archive"), h.count("dead_letters")
	h.Logf("%d rows were taken, %d published, %d dead", taken, published, dead)
	if published+dead != taken || dead == 0 {
		h.Errorf("%d published and %d dead, want %d together", published, dead, taken)
	}
	letters := 0
	for f := (deadletter.Filter{Limit: 500}); ; {
		list, err := h.store.DeadLetters(h.Context(), f)
		must(h.T, err)
		if letters += len(list); len(list) < f.Limit {
			break
		}
		f.After = list[len(list)-1].Number
	}
	if letters != dead {
		h.Errorf("%d dead letters are listed, want %d", letters, dead)
	}
	_, err := h.store.OutboxStats(h.Context())
	must(h.T, err)
}

func hostileStores(test func(t *testing.T, open func(t *testing.T, version int) *hostile, before int)) func(*testing.T) {
	return func(t *testing.T) {
		t.Run("postgres", func(t *testing.T) { t.Parallel(); test(t, postgresHostile, 10) })
		t.Run("mysql", func(t *testing.T) { t.Parallel(); test(t, mysqlHostile, 5) })
		t.Run("sqlite", func(t *testing.T) { t.Parallel(); test(t, sqliteHostile, 9) })
	}
}

// TestHostileRows lets somebody who may only insert write ten thousand rows with odd lengths, bytes,
// times and headers. Each is published, becomes a dead letter, or is refused at once; and a good
// message on every lane is published while they are there.
func TestHostileRows(t *testing.T) {
	t.Parallel()
	hostileStores(func(t *testing.T, open func(*testing.T, int) *hostile, _ int) {
		const rows = 10000
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		h := open(t, 0)
		bad := make([]hostileRow, rows)
		for i := range bad {
			bad[i] = h.row(rng, i)
		}
		taken := h.insert(rng, "scheduled", bad[:rows/20])
		taken += h.insert(rng, "outbox", bad[rows/20:rows/2])
		good := h.good()
		taken += h.insert(rng, "outbox", good)
		taken += h.insert(rng, "outbox", bad[rows/2:])
		w := h.drain()
		h.check(taken)
		if w.good != len(good) || w.goodAt > w.badAt {
			t.Errorf("%d of %d good messages were published, the last at step %d; want all before the last bad one was settled, at step %d",
				w.good, len(good), w.goodAt, w.badAt)
		}
	})(t)
}

// TestRowsFromBeforeTheChecks: what an earlier version has let in is handled, too.
func TestRowsFromBeforeTheChecks(t *testing.T) {
	t.Parallel()
	hostileStores(func(t *testing.T, open func(*testing.T, int) *hostile, before int) {
		h, rng := open(t, before), rand.New(rand.NewPCG(1, 2))
		h.extra = maps.Clone(h.extra)
		if h.extra == nil {
			h.extra = make(map[string]func(*rand.Rand) any)
		}
		h.extra["position"] = func(rng *rand.Rand) any { return -rng.Int64() } // it had no default
		row := func(id string, column string, value any) hostileRow {
			return hostileRow{values: map[string]any{"id": id, "topic": "orders", "payload": "p", column: value}}
		}
		long := func(column string) string {
			if n := h.longest(column); n > 0 {
				return h.ascii(rng, n)
			}
			return h.ascii(rng, 9600)
		}
		taken := h.insert(rng, "outbox", []hostileRow{row("a", "type", long("type")), row("b", "tenant", long("tenant")), row("c", "subject", long("subject"))})
		if h.yes == true { // PostgreSQL
			taken += h.insert(rng, "scheduled", []hostileRow{row("x", "expires_at", "infinity"), row("y", "deliver_at", "-infinity")}) - 2
		}
		taken += h.insert(rng, "scheduled", []hostileRow{
			row("d", "type", long("type")), row(h.ascii(rng, 256), "key", "k"), row("e", "key", h.ascii(rng, 256)),
			row("", "key", "k"), row("f", "payload_bytes", []byte("both")), row("g", "topic", "orders"),
		})
		taken += h.insert(rng, "outbox", h.good())
		if want := 9 + h.lanes; taken != want {
			t.Fatalf("%d rows were taken, want %d", taken, want)
		}
		must(t, h.migrate())
		if w := h.drain(); w.good != h.lanes {
			t.Errorf("%d good messages were published, want %d", w.good, h.lanes)
		}
		if h.yes == true {
			taken += 2
		}
		h.check(taken)
	})(t)
}
