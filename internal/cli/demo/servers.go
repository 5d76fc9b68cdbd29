package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/internal/cli/opener/sqlitefile"
	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
)

// Servers opens servers other than the demo's own.
type Servers interface {
	// Check returns why the demo cannot run on the broker with a URL.
	Check(broker string) error

	// OpenStore opens the store of a site and its database, which the caller must close.
	OpenStore(ctx context.Context, s Site) (*sql.DB, Store, error)

	// OpenBroker opens the broker of a site.
	OpenBroker(ctx context.Context, s Site) (Broker, error)

	// OpenLook connects to the broker of a site with its own protocol. The broker has been
	// opened before.
	OpenLook(ctx context.Context, s Site) (Look, error)
}

// Store is an opened store.
type Store interface {
	service.Store[*sql.Tx]
	inspect.Outbox
	deadletter.Store

	// Migrate migrates the schema to a version, 0 for the newest, and returns the version.
	Migrate(ctx context.Context, source string, version int) (int, error)
}

// Site says where the demo takes place: in which store, on which broker, and under which
// name. Schema, stream, exchange and queues have that name, so that nothing else is touched.
type Site struct {
	Name          string
	Store, Broker string // URLs
	File          string // of SQLite, if the store is the demo's own
	OwnBroker     bool   // it is the embedded one

	others Servers // opens those that are not
}

// Group returns the name of a consumer group on the broker.
func (s Site) Group(consumer string) string { return s.Name + "-" + consumer }

// NATS returns the settings of a site on NATS.
func (s Site) NATS() natsbroker.Config {
	return natsbroker.Config{Stream: s.Name, SubjectPrefix: s.Name + "."}
}

func (s Site) broker(ctx context.Context) (Broker, error) {
	if !s.OwnBroker {
		return s.others.OpenBroker(ctx, s)
	}
	cfg := s.NATS()
	cfg.URL, cfg.Log = s.Broker, slog.New(slog.DiscardHandler) // a failure is an error, or part of the demo
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	broker, err := natsbroker.Open(ctx, cfg)
	if err != nil { // never a nil pointer in a Broker that is not nil
		return nil, err
	}
	return broker, nil
}

func (s Site) store(ctx context.Context) (*sql.DB, Store, error) {
	if s.File == "" {
		return s.others.OpenStore(ctx, s)
	}
	return sqlitefile.Open(s.File, "", true)
}

func (s Site) look(ctx context.Context) (Look, error) {
	broker, err := s.broker(ctx) // makes the stream, or the exchange
	if err != nil {
		return nil, err
	}
	defer broker.Close()
	if s.OwnBroker {
		return OpenNATSLook(ctx, s)
	}
	return s.others.OpenLook(ctx, s)
}

const openTimeout = 10 * time.Second

// place is an opened store with the tables of the business next to waybill's own.
type place struct {
	db      *sql.DB
	store   Store
	numbers bool // parameters are written $1, not ?
}

func openPlace(ctx context.Context, s Site) (*place, error) {
	db, store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	return &place{db: db, store: store, numbers: s.onPostgres()}, nil
}

func (s Site) onPostgres() bool { return strings.HasPrefix(strings.ToLower(s.Store), "postgres") }

// sql puts the parameters of a statement, written as question marks, in the database's form.
func (p *place) sql(text string) string {
	if !p.numbers {
		return text
	}
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(text, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		text = after
	}
}

// concurrency is how many transactions are worth running concurrently. SQLite has one writer.
func (p *place) concurrency() int {
	if p.numbers {
		return 8
	}
	return 2
}

func (p *place) close() { _ = p.db.Close() } // nothing is left to be written

// servers are the store and the broker of one run.
type servers struct {
	site       Site
	place      *place
	look       Look // at the broker, bypassing our own code
	dir        string
	nats       *natsserver.Server // the embedded one, or nil
	storeText  string
	brokerText string
}

// openServers opens, or starts, the servers and creates the tables.
func openServers(ctx context.Context, cfg Config) (_ *servers, err error) {
	name := cfg.name
	if name == "" {
		name = "waybill-demo-" + strings.ToLower(rand.Text()[:8])
	}
	s := &servers{site: Site{Name: name, Store: cfg.Store, Broker: cfg.Broker, others: cfg.Servers}}
	defer func() {
		if err != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			err = errors.Join(err, s.remove(clean))
		}
	}()
	if err := s.embed(); err != nil {
		return nil, err
	}
	if s.place, err = openPlace(ctx, s.site); err != nil {
		return nil, err
	}
	if _, err := s.place.store.Migrate(ctx, shopSource, 0); err != nil {
		return nil, err
	}
	for _, stmt := range businessTables {
		if _, err := s.place.db.ExecContext(ctx, stmt); err != nil {
			return nil, fmt.Errorf("make the tables of the business: %w", err)
		}
	}
	if s.look, err = s.site.look(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// embed uses a file and an embedded server where no URL is given.
func (s *servers) embed() (err error) {
	s.storeText, s.brokerText = redact.URL(s.site.Store), redact.URL(s.site.Broker)
	if s.site.Store != "" && s.site.Broker != "" {
		return nil
	}
	if s.dir, err = os.MkdirTemp("", "waybill-demo-"); err != nil {
		return err
	}
	if s.site.Store == "" {
		s.site.File = filepath.Join(s.dir, "shop.db")
		s.storeText = "a SQLite file in a temporary directory"
	}
	if s.site.Broker == "" {
		s.brokerText = "a NATS server inside this program, JetStream in a temporary directory"
		return s.startNATS()
	}
	return nil
}

const natsStartTimeout = 10 * time.Second

// startNATS starts a NATS server with JetStream on a free port of the loopback interface.
func (s *servers) startNATS() error {
	server, err := natsserver.NewServer(&natsserver.Options{
		ServerName: s.site.Name,
		Host:       "127.0.0.1",
		Port:       natsserver.RANDOM_PORT,
		JetStream:  true,
		StoreDir:   filepath.Join(s.dir, "nats"),
		NoLog:      true,
		NoSigs:     true,
	})
	if err != nil {
		return fmt.Errorf("start the embedded NATS server: %w", err)
	}
	s.nats = server
	server.Start()
	if !server.ReadyForConnections(natsStartTimeout) {
		return fmt.Errorf("the embedded NATS server was not ready within %v", natsStartTimeout)
	}
	s.site.Broker, s.site.OwnBroker = server.ClientURL(), true
	return nil
}

// remove deletes everything that the run has created. It works on what was opened so far.
func (s *servers) remove(ctx context.Context) error {
	var errs []error
	if s.look != nil {
		errs = append(errs, s.look.Remove(ctx))
	}
	if s.place != nil {
		if s.site.onPostgres() {
			_, err := s.place.db.ExecContext(ctx, `DROP SCHEMA IF EXISTS "`+s.site.Name+`" CASCADE`)
			errs = append(errs, err)
		}
		s.place.close()
	}
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	if s.dir != "" {
		errs = append(errs, os.RemoveAll(s.dir))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up %s: %w", s.site.Name, err)
	}
	return nil
}
