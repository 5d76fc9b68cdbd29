package push

import (
	"slices"
	"strings"

	"github.com/waybill-go/waybill"
)

// Target selects the clients that get a message, of those that may see its topic. The zero value
// selects none.
type Target struct {
	Everyone    bool     // all of them
	Users       []string // clients of these users
	Groups      []string // clients that were granted one of these groups
	Connections []string // these connections
	Exclude     []string // connections that never get it
}

// The headers that [TargetOf] reads. Each holds comma-separated names.
const (
	HeaderUsers       = "push-users"
	HeaderGroups      = "push-groups"
	HeaderConnections = "push-connections"
	HeaderExclude     = "push-exclude"
)

// TargetOf reads the target from the headers of a message: the clients that one of the first three
// headers names, or, if none of these headers is set, everyone. An empty header names nobody. Names
// that contain commas need a [Config.Target].
func TargetOf(m *waybill.Message) Target {
	users, toUsers := m.Headers[HeaderUsers]
	groups, toGroups := m.Headers[HeaderGroups]
	connections, toConnections := m.Headers[HeaderConnections]
	return Target{
		Everyone:    !toUsers && !toGroups && !toConnections,
		Users:       names(users),
		Groups:      names(groups),
		Connections: names(connections),
		Exclude:     names(m.Headers[HeaderExclude]),
	}
}

func names(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// includes reports whether a connection is a target. A user without a name is no user's.
func (t Target) includes(connection string, g Grant) bool {
	if slices.Contains(t.Exclude, connection) {
		return false
	}
	return t.Everyone ||
		g.User != "" && slices.Contains(t.Users, g.User) ||
		slices.Contains(t.Connections, connection) ||
		slices.ContainsFunc(g.Groups, func(group string) bool { return slices.Contains(t.Groups, group) })
}
