//go:build linux

package ownserver

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a small disk in memory, which a test fills.
type Disk struct {
	Dir string // for the server

	t       *testing.T
	ballast string
}

// NewDisk returns a disk of this size, in megabytes. Only root may mount it. It is removed with the
// test.
func NewDisk(t *testing.T, megabytes string) *Disk {
	t.Helper()
	root := tempDir(t)
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, "size="+megabytes+"m"); err != nil {
		t.Fatalf("mount a small disk, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(root, 0); err != nil {
			t.Errorf("unmount %s: %v", root, err)
		}
	})
	d := &Disk{Dir: filepath.Join(root, "server"), t: t, ballast: filepath.Join(root, "ballast")}
	if err := errors.Join(os.Chmod(root, 0o755), os.Mkdir(d.Dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return d
}

// Fill uses up all free space.
func (d *Disk) Fill() {
	d.t.Helper()
	f, err := os.OpenFile(d.ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.t.Fatal(err)
	}
}

// Free frees that space again.
func (d *Disk) Free() {
	d.t.Helper()
	if err := os.Remove(d.ballast); err != nil {
		d.t.Fatal(err)
	}
}
