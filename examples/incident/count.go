package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// counts are what the tables hold.
type counts struct {
	orders, published, pending, letters int
	invoices, invoicedOrders            int
	parcels, shippedOrders              int
	poisonInvoices                      int
}

const countSQL = `
SELECT (SELECT count(*) FROM {s}.orders),
       (SELECT count(*) FROM {s}.messages WHERE status = 'Published'),
       (SELECT count(*) FROM {s}.messages WHERE status IN ('Pending', 'Waiting')),
       (SELECT count(*) FROM {s}.dead_letters),
       (SELECT count(*) FROM {s}.invoices), (SELECT count(DISTINCT id) FROM {s}.invoices),
       (SELECT count(*) FROM {s}.parcels), (SELECT count(DISTINCT id) FROM {s}.parcels),
       (SELECT count(*) FROM {s}.invoices WHERE note <> '')`

func (sh *shop) sql(text string) string {
	return strings.ReplaceAll(text, "{s}", pgx.Identifier{sh.name}.Sanitize())
}

func (sh *shop) count(ctx context.Context) (c counts, err error) {
	err = sh.pool.QueryRow(ctx, sh.sql(countSQL)).Scan(&c.orders, &c.published, &c.pending, &c.letters,
		&c.invoices, &c.invoicedOrders, &c.parcels, &c.shippedOrders, &c.poisonInvoices)
	return c, err
}

// patience is enough for the backlog of two minutes without a broker, on a busy machine.
const patience = 10 * time.Minute

// until waits until the tables are as they should be.
func (sh *shop) until(ctx context.Context, what string, holds func(counts) bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		c, err := sh.count(ctx)
		if err != nil {
			return fmt.Errorf("wait until %s: %w", what, err)
		}
		if holds(c) {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait until %s: %w; there are %+v", what, err, c)
		}
	}
}
