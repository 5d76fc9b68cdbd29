package rabbitbroker

import (
	"net"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/waybill-go/waybill/internal/redact"
)

// node is a server that a connection may be made to.
type node struct {
	url     string
	address string // host and port, for error texts
}

// nodesOf returns the nodes of [Config].URL. A comma separates two only before a scheme: passwords may hold
// others.
func nodesOf(urls string) ([]node, error) {
	if urls == "" {
		return nil, invalid("URL", "is required")
	}
	var nodes []node
	var vhost string
	for _, u := range splitURLs(urls) {
		uri, err := amqp.ParseURI(u)
		if err != nil || strings.Contains(uri.Host, ",") { // not wrapped: the text may quote the password
			return nil, invalid("URL", "is not an AMQP URL, such as amqp://user:password@host:5672/vhost, or several, comma-separated")
		}
		if redact.Misplaced(u) { // else part of the password is taken for the port, and shown
			return nil, invalid("URL", "has a '/', '?' or '#' in its password that is not percent-encoded")
		}
		if len(nodes) > 0 && uri.Vhost != vhost {
			return nil, invalid("URL", "has the vhosts %q and %q; the nodes of a cluster share one", vhost, uri.Vhost)
		}
		vhost = uri.Vhost
		nodes = append(nodes, node{u, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port))})
	}
	return nodes, nil
}

func splitURLs(urls string) (list []string) {
	for part := range strings.SplitSeq(urls, ",") {
		u := strings.TrimSpace(part)
		if len(list) == 0 || strings.HasPrefix(u, "amqp://") || strings.HasPrefix(u, "amqps://") {
			list = append(list, u)
			continue
		}
		list[len(list)-1] += "," + part
	}
	return list
}

// addresses returns all of them, for error texts.
func addresses(nodes []node) string {
	list := make([]string, len(nodes))
	for i, n := range nodes {
		list[i] = n.address
	}
	return strings.Join(list, ", ")
}
