package conformance

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/waybill-go/waybill/examples/filestore"
	"github.com/waybill-go/waybill/inbox"
	"github.com/waybill-go/waybill/store/storetest"
)

// fileStore is a store with its file and its clock.
type fileStore struct {
	*filestore.Store
	path  string
	clock *fileClock
}

// fileClock is a clock that goes on when its store is opened again.
type fileClock struct {
	mu     sync.Mutex
	offset time.Duration
}

func (c *fileClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

func (c *fileClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset += d
}

func openFile(t *testing.T, path string, clock *fileClock) storetest.Store[*filestore.Tx] {
	store, err := filestore.Open(path, clock.now)
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return &fileStore{store, path, clock}
}

// The store of examples/filestore passes the suite, by internal/rows and what CONTRIBUTING.md asks for.
func TestFileStore(t *testing.T) {
	t.Parallel()
	effects := func(tx *filestore.Tx, name string) int {
		n, _ := strconv.Atoi(tx.Get(name)) // "" is none
		return n
	}
	begin := func(t *testing.T, s storetest.Store[*filestore.Tx]) *filestore.Tx {
		tx, err := s.(*fileStore).Begin(context.Background())
		must(t, err)
		return tx
	}
	storetest.Run(t, storetest.Harness[*filestore.Tx]{
		Features: storetest.Features{Lanes: 64, Endless: true, InboxBatches: true, Persists: true, NoForeignRows: true},
		Open: func(t *testing.T) storetest.Store[*filestore.Tx] {
			return openFile(t, filepath.Join(t.TempDir(), "store.jsonl"), &fileClock{})
		},
		Reopen: func(t *testing.T, s storetest.Store[*filestore.Tx]) storetest.Store[*filestore.Tx] {
			return openFile(t, s.(*fileStore).path, s.(*fileStore).clock)
		},
		Begin:    begin,
		Commit:   func(t *testing.T, tx *filestore.Tx) { must(t, tx.Commit()) },
		Rollback: func(_ *testing.T, tx *filestore.Tx) { tx.Rollback() },
		Effect: func(_ context.Context, _ storetest.Store[*filestore.Tx], tx *filestore.Tx, name string) error {
			tx.Set(name, strconv.Itoa(effects(tx, name)+1))
			return nil
		},
		Effects: func(t *testing.T, s storetest.Store[*filestore.Tx], name string) int {
			tx := begin(t, s)
			defer tx.Rollback()
			return effects(tx, name)
		},
		Advance: func(_ *testing.T, s storetest.Store[*filestore.Tx], d time.Duration) { s.(*fileStore).clock.move(d) },
		Forget: func(t *testing.T, s storetest.Store[*filestore.Tx], key inbox.Key) {
			must(t, s.(*fileStore).Forget(context.Background(), key))
		},
	})
}
