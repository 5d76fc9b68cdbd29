//go:build linux

package soak

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/testtools/ownserver"
	"github.com/waybill-go/waybill/outbox"
)

var (
	// tableFull is what a MariaDB server writes into its log when it refuses a row for want of room.
	tableFull = regexp.MustCompile(`The table '(\w+)' is full`)
	// commitWaits is what it writes when a COMMIT has no room in the binary log. It looks again each minute.
	commitWaits = regexp.MustCompile(`Disk is full writing '\./(binlog)\.\d+'.* Waiting for someone to free space`)
)

// TestCluster_MariaDBDiskFull takes the room on the database's disk away, twenty times in all. InnoDB refuses what needs more of
// it: of one table after the other, or of all at once if they are in one file. With a binary log each COMMIT waits for room
// inside the server. Everything waits, and goes on when there is room; nothing counts as an attempt.
//
// A handler that waits for a row of such a COMMIT has the time for that: what exceeds HandlerTimeout has failed, see docs/guarantees.md.
//
//test:cluster
func TestCluster_MariaDBDiskFull(t *testing.T) {
	for _, test := range []struct {
		name     string
		times    int
		settings []string
		handlers time.Duration  // their HandlerTimeout
		sign     *regexp.Regexp // of a server without room
		often    int
	}{
		{"a file for each table", 8, nil, 0, tableFull, 20},
		{"one file for all tables", 8, []string{"--innodb-file-per-table=0", "--innodb-autoextend-increment=1"}, 0, tableFull, 20},
		{"a binary log", 4, []string{"--log-bin=binlog", "--binlog-format=ROW"}, patience, commitWaits, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFullDisk(t, test.settings, test.handlers)
			for range test.times {
				f.goesOn()
				f.fill(test.sign, test.often)
				f.interruptProcess()
				f.interruptProcess()
				f.free()
			}
			f.goesOn()
			f.healAll()
			f.finish(t.Context())
			orders, _, err := ledger{f.db}.totals(t.Context())
			must(t, err)
			t.Logf("%d orders; the disk was full %d times, and the server has ended %d times; it refused, or let wait: %v", orders, test.times, f.ended, f.refused)
		})
	}
}

// fullDisk is a whole system whose database is on a small disk.
type fullDisk struct {
	*run
	small     *ownserver.Disk
	writer    *outbox.Writer[*sql.Tx]
	serverLog string         // of the server, on another disk
	read      int            // how much of it is counted
	refused   map[string]int // how often, by what had no room
	ended     int            // how often the server ended
}

func newFullDisk(t *testing.T, settings []string, handlers time.Duration) *fullDisk {
	t.Helper()
	other := t.TempDir()
	must(t, errors.Join(os.Chmod(filepath.Dir(other), 0o755), os.Chmod(other, 0o777))) // the server runs as another user
	f := &fullDisk{small: ownserver.NewDisk(t, "400"), serverLog: filepath.Join(other, "log.err"), refused: make(map[string]int)}
	settings = append(settings, "--log-error="+f.serverLog, "--innodb-log-file-size=32M")
	f.run = &run{system: &system{t: t, dir: t.TempDir(), disk: f.small.Dir, settings: settings, handlers: handlers}, log: log.New(t.Output(), "", log.Ltime|log.Lmicroseconds|log.LUTC)}
	f.begin(500)
	var err error
	f.writer, err = outbox.NewWriter(f.store, outbox.Config{Source: "soak"})
	must(t, err)
	f.exec("CREATE TABLE ballast (id INT AUTO_INCREMENT PRIMARY KEY, line TEXT)")
	return f
}

// fill takes all room, and returns when the server has said so often enough that it has none, or has ended.
func (f *fullDisk) fill(sign *regexp.Regexp, often int) {
	f.t.Helper()
	f.logged(sign)
	f.small.Fill()
	n, rows := 0, 1000
	eventually(f.t, "MariaDB has no room", func() bool {
		if f.grow(rows) != nil {
			rows = max(1, rows/10)
		}
		f.order()
		n += f.logged(sign)
		return n >= often || f.database.Ended()
	})
	f.run.log.Printf("disk full, server ended: %v", f.database.Ended())
}

// grow takes room within the database's files.
func (f *fullDisk) grow(rows int) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), unanswered)
	defer cancel()
	_, err := f.db.ExecContext(ctx, fmt.Sprintf("INSERT INTO ballast (line) SELECT REPEAT(MD5(seq), 100) FROM seq_1_to_%d", rows))
	return err
}

// order places some orders. If the server does not take them that must be an outage.
func (f *fullDisk) order() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), unanswered)
	defer cancel()
	err := place(ctx, f.writer, 0)
	if err != nil && ctx.Err() == nil && !waybill.IsUnavailable(err) && !waybill.IsConflict(err) {
		f.t.Errorf("InTx() = %v of kind %v, want unavailable or a conflict", err, waybill.KindOf(err))
	}
}

// logged counts what the server has written into its log since the last time, but for what it says of the ballast.
func (f *fullDisk) logged(sign *regexp.Regexp) (n int) {
	f.t.Helper()
	text, err := os.ReadFile(f.serverLog)
	must(f.t, err)
	for _, match := range sign.FindAllSubmatch(text[f.read:], -1) {
		if what := string(match[1]); what != "ballast" {
			f.refused[what]++
			n++
		}
	}
	f.read = len(text)
	return n
}

// free gives the room back, and returns when the server uses it.
func (f *fullDisk) free() {
	f.t.Helper()
	if !f.database.Ended() {
		f.noAttempts()
	}
	f.small.Free()
	f.exec("TRUNCATE TABLE ballast")
	f.noAttempts()
}

// noAttempts fails if an attempt of a message is counted as failed.
func (f *fullDisk) noAttempts() {
	f.t.Helper()
	var n int
	var why sql.NullString
	eventually(f.t, "attempts are counted", func() bool {
		ctx, cancel := context.WithTimeout(f.t.Context(), unanswered)
		defer cancel()
		return f.db.QueryRowContext(ctx, `SELECT COUNT(*), GROUP_CONCAT(error) FROM (
 SELECT error FROM waybill_outbox_waiting WHERE attempts > 0 UNION ALL SELECT error FROM waybill_consumer_attempts WHERE attempts > 0) a`).Scan(&n, &why) == nil
	})
	if n > 0 {
		f.t.Errorf("%d messages have failed attempts, want none: %s", n, why.String)
	}
}

// exec runs a statement when the server, which is started again if it has ended, lets it.
func (f *fullDisk) exec(sql string) {
	f.t.Helper()
	eventually(f.t, sql, func() bool {
		if f.database.Ended() {
			f.ended++
			f.database.Back()
		}
		ctx, cancel := context.WithTimeout(f.t.Context(), unanswered)
		defer cancel()
		_, err := f.db.ExecContext(ctx, sql)
		return err == nil
	})
}
