//go:build unix

package ownserver

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// NewGalera returns the nodes of a Galera cluster of MariaDB, which listen for clients on the given ports. The first one
// has an empty database system, for the user root, who needs no password, and creates the cluster when it is
// started for the first time. Start the others when it answers: they copy its data by rsync, as does a node
// that was killed. One that was paused gets what it has missed.
func NewGalera(t *testing.T, clients []string) []*Server {
	t.Helper()
	free := FreePorts(t, 3*len(clients))
	var group, each []string
	for i := range clients {
		group = append(group, free[3*i])
		each = append(each, "127.0.0.1:"+free[3*i])
	}
	nodes := make([]*Server, len(clients))
	for i, port := range clients {
		settings := []string{
			"--wsrep-on=ON", "--wsrep-provider=" + galeraLibrary(t), "--wsrep-cluster-name=waybill", "--wsrep-node-name=n" + port,
			"--wsrep-cluster-address=gcomm://" + strings.Join(each, ","), "--wsrep-node-address=127.0.0.1:" + group[i],
			"--wsrep-sst-method=rsync", "--wsrep-sst-receive-address=127.0.0.1:" + free[3*i+1],
			"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:" + group[i] + ";ist.recv_addr=127.0.0.1:" + free[3*i+2],
			"--binlog-format=ROW", "--innodb-autoinc-lock-mode=2",
		}
		nodes[i] = New(t, "", "mysql", func(dir string) *exec.Cmd {
			if _, err := os.Stat(filepath.Join(dir, "data", "grastate.dat")); i == 0 && os.IsNotExist(err) {
				return mariadb(dir, port, append(settings, "--wsrep-new-cluster"))
			}
			return mariadb(dir, port, settings)
		})
	}
	nodes[0].InitMariaDB()
	for _, n := range nodes[1:] {
		n.Run("mkdir", filepath.Join(n.Dir, "data"))
	}
	return nodes
}

func galeraLibrary(t *testing.T) string {
	t.Helper()
	const pattern = "/usr/lib*/galera*/libgalera_smm.so"
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s, run \"make services\", which installs galera-4 (%v)", pattern, err)
	}
	return found[0]
}

// NewHAProxy returns an HAProxy that connects clients to one of several servers: to the first one whose check
// answers 200. When that changes, or the former one comes back, it ends the connections to the other servers.
func NewHAProxy(t *testing.T, port string, servers, checks []string) *Server {
	t.Helper()
	var conf strings.Builder
	fmt.Fprintf(&conf, `defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout check 1s
listen writer
    bind 127.0.0.1:%s
    option httpchk
    default-server inter 500ms fall 2 rise 2 on-marked-down shutdown-sessions on-marked-up shutdown-backup-sessions
`, port)
	for i, server := range servers {
		fmt.Fprintf(&conf, "    server n%d 127.0.0.1:%s check port %s", i, server, checks[i])
		if i > 0 {
			conf.WriteString(" backup")
		}
		conf.WriteString("\n")
	}
	s := New(t, "", "haproxy", func(dir string) *exec.Cmd {
		return exec.Command("haproxy", "-db", "-f", filepath.Join(dir, "haproxy.cfg"))
	})
	if err := os.WriteFile(filepath.Join(s.Dir, "haproxy.cfg"), []byte(conf.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}
