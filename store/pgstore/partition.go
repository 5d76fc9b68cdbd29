package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	archiveDaysAhead = 8
	dayLayout        = "20060102" // at the end of a partition's name

	checkViolation = "23514"
)

const (
	// shortLockSQL is for statements that want the archive, or a part of it, for themselves.
	// While one waits for its lock, settlements wait behind it.
	shortLockSQL = `SET LOCAL lock_timeout = '100ms'`

	// addDaySQL makes a partition without a lock that settlements would wait for, which CREATE TABLE …
	// PARTITION OF has. Partitions inherit no storage parameters. Rows of a day are never changed and
	// leave with their table: there is nothing to vacuum, but for the age of transaction ids, which the
	// server watches anyway.
	addDaySQL  = `SELECT {add_archive_day}('%s')`
	dropDaySQL = `SELECT {drop_archive_day}('%s')`
)

// partition returns the name of a day's partition.
func (n names) partition(day time.Time) string {
	return n.prefix + "outbox_archive_" + day.Format(dayLayout)
}

// dayOf is the inverse of partition. ok is false if the name is not of a day.
func (n names) dayOf(partition string) (day time.Time, ok bool) {
	text, ok := strings.CutPrefix(partition, n.prefix+"outbox_archive_")
	day, err := time.Parse(dayLayout, text)
	return day, ok && err == nil
}

// addPartition makes a day's partition. The error is a check violation if the default
// partition has rows of that day.
func (n names) addPartition(ctx context.Context, conn sqldb.Conn, day time.Time) error {
	return runAll(ctx, conn, shortLockSQL, n.render(fmt.Sprintf(addDaySQL, day.Format(time.DateOnly))))
}

// dropPartition removes a day's partition with all its rows.
func (n names) dropPartition(ctx context.Context, conn sqldb.Conn, day time.Time) error {
	return runAll(ctx, conn, shortLockSQL, n.render(fmt.Sprintf(dropDaySQL, day.Format(time.DateOnly))))
}

func runAll(ctx context.Context, conn sqldb.Conn, stmts ...string) error {
	for _, stmt := range stmts {
		if _, err := conn.Exec(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

func hasState(err error, state string) bool {
	var s sqlStater
	return errors.As(err, &s) && s.SQLState() == state
}
