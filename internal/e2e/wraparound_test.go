package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/relay"
)

// xidsInFile is how many transactions have their state in one file of pg_xact.
const xidsInFile = 1 << 20

// agedPostgres is a PostgreSQL server whose next transaction can be chosen.
type agedPostgres struct {
	t      *testing.T
	port   string
	server *ownserver.Server
	url    string
}

func newAgedPostgres(t *testing.T) *agedPostgres {
	t.Helper()
	p := &agedPostgres{t: t, port: ownserver.FreePorts(t, 1)[0]}
	p.server = ownserver.NewPostgres(t, "", p.port, "fsync=off", "max_connections=50")
	p.server.InitPostgres()
	p.start()
	return p
}

func (p *agedPostgres) start() {
	p.t.Helper()
	p.server.Start()
	p.url = ownserver.AwaitPostgres(p.t, p.port)
}

// age makes a number the next transaction's. Rows are frozen before, as autovacuum does long before a number is at most
// two billion away.
func (p *agedPostgres) age(epoch, xid uint32) {
	p.t.Helper()
	p.server.Run(ownserver.PostgresProgram(p.t, "psql"), "-q", "-c", "ALTER DATABASE template0 ALLOW_CONNECTIONS true", p.url)
	p.server.Run(ownserver.PostgresProgram(p.t, "vacuumdb"), "-a", "-F", "-q", "--maintenance-db="+p.url)
	p.server.Stop()
	data := filepath.Join(p.server.Dir, "data")
	state := filepath.Join(data, "pg_xact", fmt.Sprintf("%04X", xid/xidsInFile))
	if _, err := os.Stat(state); err != nil {
		p.server.Run("truncate", "-s", fmt.Sprint(xidsInFile/4), state) // of none that has committed
	}
	p.server.Run(ownserver.PostgresProgram(p.t, "pg_resetwal"), "-f", "-D", data, "-x", fmt.Sprint(xid), "-e", fmt.Sprint(epoch))
	p.start()
}

// TestWraparound writes and relays while the 32 bits of transaction numbers come to their end and begin again: of a key
// nothing passes an earlier message, what commits late is published, and a claim and a settlement work as before.
//
//test:clock
func TestWraparound(t *testing.T) {
	p := newAgedPostgres(t)
	for _, xid := range []uint32{1_400_000_000, 2_800_000_000, 1<<32 - 400} {
		p.age(0, xid)
	}
	w := newWorldAt(t, p.url, session{}) // its migrations take some hundreds of the last numbers
	for w.xid(t) < 1<<32-200 {
		w.exec(t, "SELECT pg_current_xact_id()")
	}
	pub := &recorder{}
	w.startRelay(t, pub, relay.Config{Mode: relay.Strict})
	late, err := w.pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.writer.Enqueue(context.Background(), late, waybill.Message{ID: "late", Topic: "orders", Key: "late"}); err != nil {
		t.Fatal(err)
	}
	msgs := numbered("m", "orders", 500)
	for i := range msgs {
		msgs[i].Key = fmt.Sprintf("k%d", i%7)
		w.inTx(t, func(tx pgx.Tx) error {
			_, err := w.writer.Enqueue(t.Context(), tx, msgs[i])
			return err
		})
	}
	if now := w.xid(t); now < 1<<32+200 {
		t.Fatalf("the next transaction is %d, which is not beyond 32 bits", now)
	}
	eventually(t, "all are published", func() bool { return len(pub.ids()) == len(msgs) })
	if err := late.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was committed late is published", func() bool { return pub.count("late") == 1 })
	orderKept(t, pub)
	w.waitStatus(t, "late", "Published")
	w.everyIDOnce(t, len(msgs)+1)
}

// xid returns the number of a transaction with its epoch, and uses it up.
func (w *world) xid(t *testing.T) int {
	t.Helper()
	return w.number(t, "SELECT pg_current_xact_id()::text::bigint")
}
