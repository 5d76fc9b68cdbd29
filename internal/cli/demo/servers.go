package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"github.com/waybill-go/waybill/broker/natsbroker"
	"github.com/waybill-go/waybill/broker/rabbitbroker"
	"github.com/waybill-go/waybill/internal/cli/opener"
	"github.com/waybill-go/waybill/internal/redact"
)

// site says where the show takes place: in which store, on which broker, and under which
// name. Schema, stream, exchange and queues have that name, so that nothing else is touched.
type site struct {
	Name   string
	Store  opener.StoreConfig
	Broker string // its URL
}

// broker opens the broker of the show.
func (s site) broker(ctx context.Context) (opener.Broker, error) {
	return opener.ReachBroker(ctx, opener.BrokerConfig{
		URL:      s.Broker,
		RabbitMQ: rabbitbroker.Config{Exchange: s.Name},
		NATS:     natsbroker.Config{Stream: s.Name, SubjectPrefix: s.Name + "."},
	})
}

// group returns the name of a consumer group on the broker.
func (s site) group(consumer string) string { return s.Name + "-" + consumer }

// place is an opened store with the tables of the business beside waybill's own.
type place struct {
	db      *sql.DB
	store   opener.SQLStore
	numbers bool // parameters are written $1, not ?
}

func openPlace(ctx context.Context, s site) (*place, error) {
	db, store, err := opener.OpenSQL(ctx, s.Store)
	if err != nil {
		return nil, err
	}
	return &place{db: db, store: store, numbers: opener.IsPostgres(s.Store.URL)}, nil
}

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

// concurrency is how many transactions are worth running at a time. SQLite has one writer.
func (p *place) concurrency() int {
	if p.numbers {
		return 8
	}
	return 2
}

func (p *place) close() { _ = p.db.Close() } // nothing is left to be written

// servers are the store and the broker of one show.
type servers struct {
	site       site
	place      *place
	look       look // at the broker, past our own code
	dir        string
	nats       *natsserver.Server // the embedded one, or nil
	storeText  string
	brokerText string
}

// openServers opens, or starts, the servers and makes the tables.
func openServers(ctx context.Context, cfg Config) (_ *servers, err error) {
	name := cfg.name
	if name == "" {
		name = "waybill-demo-" + strings.ToLower(rand.Text()[:8])
	}
	s := &servers{site: site{
		Name:   name,
		Store:  opener.StoreConfig{URL: cfg.Store, Schema: name, Create: true},
		Broker: cfg.Broker,
	}}
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
	if s.look, err = openLook(ctx, s.site); err != nil {
		return nil, err
	}
	return s, nil
}

// embed puts a file and a server of our own where no URL is given.
func (s *servers) embed() (err error) {
	s.storeText, s.brokerText = redact.URL(s.site.Store.URL), redact.URL(s.site.Broker)
	if s.site.Store.URL != "" && s.site.Broker != "" {
		return nil
	}
	if s.dir, err = os.MkdirTemp("", "waybill-demo-"); err != nil {
		return err
	}
	if s.site.Store.URL == "" {
		s.site.Store.URL = "sqlite:" + filepath.Join(s.dir, "shop.db")
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
	s.site.Broker = server.ClientURL()
	return nil
}

// remove takes away all that the show has made. It works on what was opened so far.
func (s *servers) remove(ctx context.Context) error {
	var errs []error
	if s.look != nil {
		errs = append(errs, s.look.remove(ctx))
	}
	if s.place != nil {
		if opener.IsPostgres(s.site.Store.URL) {
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
