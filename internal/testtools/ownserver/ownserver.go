//go:build unix

// Package ownserver runs servers that belong to one test, which may give them other settings, kill them and pause
// them. "make services" installs the programs.
package ownserver

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// Server is a server of one test. It is not safe for concurrent use.
type Server struct {
	Dir string // its own, with its output in the file log

	t       *testing.T
	user    *syscall.Credential // the user it runs as; nil for that of the test
	command func() *exec.Cmd
	env     []string // additional environment variables
	running *exec.Cmd
	paused  bool

	launcher []string // a program and its arguments that become the server
}

// New returns a server that is not started yet. Its directory exists already, or, if dir is "", is created and
// removed with the test. If the test runs as root, the server runs as the user of that name, "" for root, who
// becomes the owner of the directory. It ends with the test.
func New(t *testing.T, dir, name string, command func(dir string) *exec.Cmd) *Server {
	t.Helper()
	if dir == "" {
		dir = tempDir(t)
	}
	s := &Server{Dir: dir, t: t, user: credential(t, name), command: func() *exec.Cmd { return command(dir) }}
	t.Cleanup(s.Kill)
	if s.user != nil {
		if err := os.Chown(dir, int(s.user.Uid), int(s.user.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "waybill-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func credential(t *testing.T, name string) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 || name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Fatalf("no user %s, run \"make services\": %v", name, err)
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32) // a number on these systems
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// as lets a command run as the server's user, in its directory, with what it starts in one process group.
func (s *Server) as(cmd *exec.Cmd) *exec.Cmd {
	cmd.Dir, cmd.SysProcAttr = s.Dir, &syscall.SysProcAttr{Setpgid: true, Credential: s.user}
	return cmd
}

// Run runs another program as the server's user, to its end.
func (s *Server) Run(program string, args ...string) {
	s.t.Helper()
	if out, err := s.as(exec.Command(program, args...)).CombinedOutput(); err != nil {
		s.t.Fatalf("%s: %v\n%s", program, err, out)
	}
}

// Start starts the server, without waiting until it answers.
func (s *Server) Start() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.Dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd := s.as(s.command())
	cmd.Env = append(cmd.Environ(), s.env...)
	if s.launcher != nil {
		by := exec.Command(s.launcher[0], append(s.launcher[1:len(s.launcher):len(s.launcher)], cmd.Args...)...)
		cmd.Path, cmd.Args, cmd.Err = by.Path, by.Args, by.Err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start a server, which \"make services\" installs: %v", err)
	}
	s.running = cmd
}

// Kill ends the server and all that it has started at once, as when its machine loses power: none of its processes
// sees another one end. It may be repeated.
func (s *Server) Kill() {
	if s.running == nil {
		return
	}
	main := s.running.Process.Pid
	_ = syscall.Kill(main, syscall.SIGSTOP) // it starts nothing more; it may have ended
	for _, pid := range descendants(main) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-main, syscall.SIGKILL)
	_ = s.running.Wait() // reports the signal
	s.running, s.paused = nil, false
}

// Ended reports whether the server has ended by itself. [Server.Back] starts it again.
func (s *Server) Ended() bool {
	if s.running == nil {
		return true
	}
	if pid, err := syscall.Wait4(s.running.Process.Pid, nil, syscall.WNOHANG, nil); err == nil && pid == 0 {
		return false
	}
	s.Kill() // the processes that it has left
	return true
}

// descendants returns the processes that a process has started, directly or not, if the system has /proc.
func descendants(pid int) (list []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	children := make(map[int][]int)
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		rest := string(text[bytes.LastIndex(text, []byte(")"))+1:]) // the text before may contain anything
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil {
			child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			children[parent] = append(children[parent], child)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		list = append(list, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return list
}

// Stop shuts the server down gracefully, even if it is paused.
func (s *Server) Stop() {
	if s.running == nil {
		return
	}
	s.Back()
	_ = s.running.Process.Signal(syscall.SIGINT) // it may have ended
	_ = s.running.Wait()                         // by that signal
	s.running = nil
}

// Pause suspends the server.
func (s *Server) Pause() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	s.paused = true
}

// Back restarts a server that was killed, or resumes it.
func (s *Server) Back() {
	s.t.Helper()
	switch {
	case s.running == nil:
		s.Start()
	case s.paused:
		s.signal(syscall.SIGCONT)
		s.paused = false
	}
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := syscall.Kill(-s.running.Process.Pid, sig); err != nil {
		s.t.Fatal(err)
	}
}

// FreePorts returns free ports of the loopback interface.
func FreePorts(t *testing.T, n int) []string {
	t.Helper()
	list := make([]string, n)
	for i := range list {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at the end, so that they differ
		_, list[i], _ = net.SplitHostPort(l.Addr().String())
	}
	return list
}
