package pgstore

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/waybill-go/waybill/internal/sqldb"
)

const (
	archiveDaysAhead = 8
	dayLayout        = "20060102" // at the end of a partition's name

	checkViolation = "23514"
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

// addPartition creates a day's partition. The error is a check violation if the default partition
// has rows of that day.
func (s *engine[Tx]) addPartition(ctx context.Context, conn sqldb.Conn, day time.Time) error {
	return runAll(ctx, conn, s.sql.ShortLock, onDay(s.sql.AddDay, day))
}

// dropPartition removes a day's partition with all its rows.
func (s *engine[Tx]) dropPartition(ctx context.Context, conn sqldb.Conn, day time.Time) error {
	return runAll(ctx, conn, s.sql.ShortLock, onDay(s.sql.DropDay, day))
}

func onDay(text string, day time.Time) string {
	return strings.Replace(text, "{day}", day.Format(time.DateOnly), 1)
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
