package opener

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/waybill-go/waybill/internal/redact"
	"github.com/waybill-go/waybill/service"
	"github.com/waybill-go/waybill/store/mysqlstore"
)

// maxMySQLConns is how many connections a process has to MariaDB or MySQL.
const maxMySQLConns = 10

// mysql is a Store of MariaDB or MySQL.
type mysql struct {
	*mysqlstore.Store
	db      *sql.DB
	address string
}

var _ Store = (*mysql)(nil)

// isMySQL reports whether a store's URL is one of MariaDB or MySQL.
func isMySQL(url string) bool {
	scheme := schemeOf(url)
	return scheme == "mysql" || scheme == "mariadb"
}

func newMySQL(cfg StoreConfig) (Store, error) {
	db, store, err := openMySQL(cfg)
	if err != nil {
		return nil, err
	}
	return &mysql{Store: store, db: db, address: redact.URL(cfg.URL)}, nil
}

func openMySQL(cfg StoreConfig) (*sql.DB, *mysqlstore.Store, error) {
	c, err := mysqlConfig(cfg.URL)
	if err != nil {
		return nil, nil, err
	}
	connector, err := driver.NewConnector(c)
	if err != nil {
		return nil, nil, badURL("store", cfg.URL, err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(maxMySQLConns)
	db.SetMaxIdleConns(maxMySQLConns)
	store, err := mysqlstore.New(db, mysqlstore.Config{TablePrefix: cfg.TablePrefix})
	if err != nil {
		_ = db.Close() // it was never used
		return nil, nil, err
	}
	return db, store, nil
}

// mysqlConfig turns mysql://user:password@host:port/database?parameters into the driver's own
// form. Statements are sent with their arguments, in one round trip each, unless the URL says
// otherwise.
func mysqlConfig(rawURL string) (*driver.Config, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, badURL("store", rawURL, err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" || database == "" || strings.Contains(database, "/") {
		return nil, badURL("store", rawURL, errNoDatabase)
	}
	q := u.Query()
	q.Set("interpolateParams", cmp.Or(q.Get("interpolateParams"), "true"))
	c, err := driver.ParseDSN("/?" + q.Encode())
	if err != nil {
		return nil, fmt.Errorf("%w: store %s: a parameter is not one of the driver's", ErrURL, redact.URL(rawURL))
	}
	c.Net, c.Addr, c.DBName = "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "3306")), database
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Timeout = cmp.Or(c.Timeout, Timeout)
	return c, nil
}

var errNoDatabase = errors.New("the host or the name of the database is missing")

func (s *mysql) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, mysqlstore.MigrateOptions{Source: source, Version: version})
}

// mysqlFactsSQL queries what MariaDB and MySQL both have.
const mysqlFactsSQL = `
SELECT VERSION(), CURRENT_USER(), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR)`

// Facts omits what does not matter to the store: its transactions set their isolation level,
// and times are kept as numbers.
func (s *mysql) Facts(ctx context.Context) (Facts, error) {
	f := Facts{PoolSize: maxMySQLConns}
	var micros int64
	err := s.db.QueryRowContext(ctx, mysqlFactsSQL).Scan(&f.Version, &f.User, &micros)
	f.Clock = time.UnixMicro(micros)
	if version, _, mariaDB := strings.Cut(f.Version, "-MariaDB"); mariaDB {
		f.Version = "MariaDB " + version
	} else {
		f.Version = "MySQL " + f.Version
	}
	return f, err
}

func (s *mysql) Service(broker service.Broker, cfg service.Config) (Runner, error) {
	return service.New(s.Store, broker, cfg)
}

func (s *mysql) Address() string { return s.address }

func (s *mysql) Close() error { return s.db.Close() }

// mysqlSQL is an SQLStore of MariaDB or MySQL.
type mysqlSQL struct{ *mysqlstore.Store }

var _ SQLStore = mysqlSQL{}

func (s mysqlSQL) Migrate(ctx context.Context, source string, version int) (int, error) {
	return s.Store.Migrate(ctx, mysqlstore.MigrateOptions{Source: source, Version: version})
}

func newMySQLSQL(cfg StoreConfig) (*sql.DB, SQLStore, error) {
	db, store, err := openMySQL(cfg)
	if err != nil {
		return nil, nil, err
	}
	return db, mysqlSQL{store}, nil
}
