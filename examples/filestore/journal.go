package filestore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/waybill-go/waybill/deadletter"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/internal/rows"
	"github.com/waybill-go/waybill/outbox"
)

// data is what the store holds.
type data struct {
	outbox, scheduled map[int64]*rows.Row
	waiting           map[rows.Place]*rows.Waiting
	archive           map[any]*rows.Archived
	ids               map[outbox.Identity]*rows.ID
	letters           map[int64]*rows.Letter
	audit             map[int64]*deadletter.Entry
	replays           map[int64]*rows.Replay
	inbox             map[inbox.Key]*rows.Record
	attempts          map[inbox.Key]*rows.Attempt
	relays            map[string]*rows.Relay
	lanes             map[int]*rows.Lane
	drawn             map[rows.Counter]*int64
	values            map[string]*string // the caller's values
}

func newData() data {
	return data{
		outbox: map[int64]*rows.Row{}, scheduled: map[int64]*rows.Row{}, waiting: map[rows.Place]*rows.Waiting{},
		archive: map[any]*rows.Archived{}, ids: map[outbox.Identity]*rows.ID{}, letters: map[int64]*rows.Letter{},
		audit: map[int64]*deadletter.Entry{}, replays: map[int64]*rows.Replay{}, inbox: map[inbox.Key]*rows.Record{},
		attempts: map[inbox.Key]*rows.Attempt{}, relays: map[string]*rows.Relay{}, lanes: map[int]*rows.Lane{},
		drawn: map[rows.Counter]*int64{}, values: map[string]*string{},
	}
}

// tables returns the tables within a transaction.
func (d *data) tables(tx *Tx) *rows.Tx {
	position := func(r *rows.Row) int64 { return r.Position }
	return &rows.Tx{
		Driver:    tx,
		Outbox:    table(tx, "outbox", d.outbox, position),
		Scheduled: table(tx, "scheduled", d.scheduled, position),
		Waiting:   table(tx, "waiting", d.waiting, (*rows.Waiting).Place),
		Archive:   archive{table(tx, "archive", d.archive, func(a *rows.Archived) any { return a.Key }), tx},
		IDs:       table(tx, "ids", d.ids, func(id *rows.ID) outbox.Identity { return id.Identity }),
		Letters:   table(tx, "letters", d.letters, func(l *rows.Letter) int64 { return l.Number }),
		Audit:     table(tx, "audit", d.audit, func(e *deadletter.Entry) int64 { return e.Number }),
		Replays:   table(tx, "replays", d.replays, func(r *rows.Replay) int64 { return r.Number }),
		Inbox:     table(tx, "inbox", d.inbox, func(r *rows.Record) inbox.Key { return r.Key }),
		Attempts:  table(tx, "attempts", d.attempts, func(a *rows.Attempt) inbox.Key { return a.Key }),
		Relays:    table(tx, "relays", d.relays, func(r *rows.Relay) string { return r.Node }),
		Lanes:     table(tx, "lanes", d.lanes, func(l *rows.Lane) int { return l.Number }),
	}
}

// archive gives rows their keys, which are texts as they come from the file.
type archive struct {
	rows.MapTable[any, rows.Archived]
	tx *Tx
}

func (a archive) Add(ctx context.Context, list ...*rows.Archived) error {
	next, _, err := a.tx.Draw(ctx, "archive", len(list))
	for i, r := range list {
		r.Key = fmt.Sprint(next + int64(i))
	}
	return errors.Join(err, a.MapTable.Add(ctx, list...))
}

func table[K comparable, R any](tx *Tx, name string, m map[K]*R, key func(*R) K) rows.MapTable[K, R] {
	return rows.MapTable[K, R]{Rows: m, Key: key, Set: func(k K, r *R) { set(tx, name, m, k, r) }}
}

// set changes a row, or removes it if it is nil, and records the change for the file and for a rollback.
func set[K comparable, R any](tx *Tx, name string, m map[K]*R, k K, r *R) {
	old := m[k]
	tx.undo = append(tx.undo, func() { apply(m, k, old) })
	apply(m, k, r)
	tx.changes = append(tx.changes, change{Table: name, Key: k, Row: r})
}

func apply[K comparable, R any](m map[K]*R, k K, r *R) {
	if r == nil {
		delete(m, k)
	} else {
		m[k] = r
	}
}

// change is a row that a transaction has written, or removed if it is null.
type change struct {
	Table string
	Key   any
	Row   any
}

// journaled applies a change that was read from the file.
type journaled func(key, row json.RawMessage) error

func (d *data) files() map[string]journaled {
	return map[string]journaled{
		"outbox": from(d.outbox), "scheduled": from(d.scheduled), "waiting": from(d.waiting), "archive": from(d.archive), "ids": from(d.ids),
		"letters": from(d.letters), "audit": from(d.audit), "replays": from(d.replays), "inbox": from(d.inbox), "attempts": from(d.attempts),
		"relays": from(d.relays), "lanes": from(d.lanes), "drawn": from(d.drawn), "values": from(d.values),
	}
}

func from[K comparable, R any](m map[K]*R) journaled {
	return func(key, row json.RawMessage) error {
		var k K
		var r *R
		if err := errors.Join(json.Unmarshal(key, &k), json.Unmarshal(row, &r)); err != nil {
			return err
		}
		apply(m, k, r)
		return nil
	}
}

// write appends a line with all changes of a transaction, and waits until it is on disk. A line that is cut
// short, by a full disk or the end of the process, does not count; the next one is written in its place.
func (s *Store) write(changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	line, err := json.Marshal(changes)
	if err != nil {
		return err
	}
	begin, err := s.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err = s.file.Write(append(line, '\n')); err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		return nil
	}
	_, back := s.file.Seek(begin, io.SeekStart)
	return errors.Join(err, back, s.file.Truncate(begin))
}

// load reads the file up to its last complete line, where the next one will begin.
func (s *Store) load() error {
	end, lines := int64(0), bufio.NewReader(s.file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := s.replay(line); err != nil {
			return fmt.Errorf("the line at %d: %w", end, err)
		}
		end += int64(len(line))
	}
	_, err := s.file.Seek(end, io.SeekStart)
	return errors.Join(err, s.file.Truncate(end))
}

// replay applies the changes of a line.
func (s *Store) replay(line []byte) error {
	var changes []struct {
		Table    string
		Key, Row json.RawMessage
	}
	if err := json.Unmarshal(bytes.TrimSpace(line), &changes); err != nil {
		return err
	}
	for _, c := range changes {
		apply, ok := s.files[c.Table]
		if !ok {
			return fmt.Errorf("there is no table %q", c.Table)
		}
		if err := apply(c.Key, c.Row); err != nil {
			return err
		}
	}
	return nil
}
