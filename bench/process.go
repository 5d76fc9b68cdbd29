package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is the number of clock ticks in a second of CPU time; Linux has had no other since 2.6.
const ticks = 100

// servers returns the processes whose CPU time counts: those that listen at an address, with
// all their children, including those that have ended. Without /proc there are none.
func servers(urls ...string) []int {
	var pids []int
	for _, u := range urls {
		host, err := hostOf(u)
		if err != nil {
			return nil
		}
		_, port, _ := strings.Cut(host, ":")
		number, _ := strconv.Atoi(port)
		pid := listener(number)
		if pid == 0 {
			return nil
		}
		pids = append(pids, pid)
	}
	return pids
}

// listener returns the process that listens on a TCP port, or 0: the oldest, if a server has
// passed the socket to its children.
func listener(port int) int {
	sockets := make(map[string]bool)
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			f := strings.Fields(lines.Text()) // number, local address, remote address, state, …, inode
			if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) && f[3] == "0A" {
				sockets["socket:["+f[9]+"]"] = true
			}
		}
	}
	oldest := 0
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && sockets[to] {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			if oldest == 0 || pid < oldest {
				oldest = pid
			}
		}
	}
	return oldest
}

// cpuSeconds is the CPU time of processes with all their children so far.
func cpuSeconds(pids []int) float64 {
	wanted := make(map[int]bool)
	for _, pid := range pids {
		wanted[pid] = true
	}
	total := 0.0
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		s, ok := readStat(file)
		switch {
		case !ok:
		case wanted[s.pid]:
			total += s.own + s.ended
		case wanted[s.parent]: // PostgreSQL: one process for each connection
			total += s.own
		}
	}
	return total
}

type stat struct {
	pid, parent int
	own, ended  float64 // CPU seconds of itself, and of children that have ended
}

func readStat(file string) (s stat, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, false
	}
	id, rest, ok := strings.Cut(string(text), " (")
	end := strings.LastIndex(rest, ") ") // the name may hold anything
	if !ok || end < 0 {
		return s, false
	}
	f := strings.Fields(rest[end+2:]) // state, parent, …; utime is the twelfth
	if len(f) < 15 {
		return s, false
	}
	s.pid, _ = strconv.Atoi(id)
	s.parent, _ = strconv.Atoi(f[1])
	var t [4]float64
	for i := range t {
		t[i], _ = strconv.ParseFloat(f[11+i], 64)
	}
	s.own, s.ended = (t[0]+t[1])/ticks, (t[2]+t[3])/ticks
	return s, true
}

// peakMemory is the most memory that a process has had resident, in MB; 0 if unknown.
func peakMemory(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kb, _ := strconv.ParseFloat(f[0], 64)
	return kb / 1024
}
