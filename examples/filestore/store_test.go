package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/examples/filestore"
	"github.com/waybill-go/waybill/inspect"
	"github.com/waybill-go/waybill/outbox"
)

// enqueue opens the store in a file, enqueues a message and closes the store.
func enqueue(t *testing.T, path, id string) {
	t.Helper()
	s, err := filestore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Transact(t.Context(), func(context.Context, *filestore.Tx) (outbox.Batch, error) {
		return outbox.Batch{Messages: []waybill.Message{{ID: id, Topic: "orders", Type: "placed", Source: "shop"}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// pending returns the ids of the messages in a file.
func pending(t *testing.T, path string) string {
	t.Helper()
	s, err := filestore.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	states, err := s.OutboxMessages(t.Context(), inspect.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, st := range states {
		ids = append(ids, st.ID)
	}
	return strings.Join(ids, " ")
}

// A process that ends while it writes leaves a part of a line: its transaction was not committed, and the next one is
// written in its place.
func TestOpen_PartOfALine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.jsonl")
	enqueue(t, path, "a")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, path, "b")
	both, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{len(whole) + 1, (len(whole) + len(both)) / 2, len(both) - 1} {
		if err := os.WriteFile(path, both[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		if got := pending(t, path); got != "a" {
			t.Errorf("cut at %d of %d: pending %q, want a", cut, len(both), got)
		}
		enqueue(t, path, "c")
		if got := pending(t, path); got != "a c" {
			t.Errorf("cut at %d of %d, and one more: pending %q, want a c", cut, len(both), got)
		}
	}
}

// A whole line that can't be read is no crash's: the store is not opened, and nothing is dropped.
func TestOpen_Damaged(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"nonsense\n", `[{"Table":"nobody's","Key":1,"Row":null}]` + "\n", `[{"Table":"outbox","Key":"x","Row":null}]` + "\n"} {
		path := filepath.Join(t.TempDir(), "store.jsonl")
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := filestore.Open(path, nil); err == nil {
			s.Close()
			t.Errorf("Open() of %q succeeds", damage)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != damage {
			t.Errorf("left of %q: %q, %v", damage, left, err)
		}
	}
}
