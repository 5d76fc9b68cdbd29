package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/contract"
)

// peer is another library that drains its own table. All publish with the same client and the
// same headers as the relay, and wait for the broker's confirmation of each message. A peer
// has finished when its last message is confirmed.
type peer struct {
	module      string // with the version of go.mod
	note        string // its configuration, and what it does not do
	connections int    // of its pool
	fill        func(ctx context.Context, w *world, n int) error
	drain       func(ctx context.Context, p *peerRun) error // until ctx ends
}

var peers = map[string]peer{
	"watermill": watermillPeer,
	"oagudo":    oagudoPeer,
	"river":     riverPeer,
	"gue":       guePeer,
}

// peerRun is what a peer uses.
type peerRun struct {
	*client
	pool *pgxpool.Pool
	pub  contract.Publisher
}

func peerJob(ctx context.Context, c *client) error {
	p, ok := peers[c.Peer]
	if !ok {
		return fmt.Errorf("no such peer: %q", c.Peer)
	}
	c.Connections = p.connections
	return c.publishing(ctx, func(run context.Context, pool *pgxpool.Pool, pub *publisher) error {
		if err := p.drain(run, &peerRun{c, pool, pub}); err != nil && run.Err() == nil {
			return err
		}
		c.tellTaken(pub)
		return nil
	})
}

const peerTimeout = 30 * time.Second

// publish sends one message and waits for its confirmation.
func (p *peerRun) publish(ctx context.Context, id, key string, payload []byte) error {
	ctx, cancel := context.WithTimeout(ctx, peerTimeout)
	defer cancel()
	m := &waybill.Message{
		ID: id, Topic: topic, Key: key, Type: topic, Source: "bench", Tenant: "default",
		Payload: payload, ContentType: "application/json",
	}
	if err := p.pub.Send(ctx, []contract.Outgoing{{Message: m, DedupID: id}})()[0]; err != nil {
		return err
	}
	p.add(1)
	return nil
}

// contender returns a contender for the peer that drains one share-th of the backlog.
func (p peer) contender(name, key string, workers, share int) contender {
	note := p.module + "; " + p.note
	if share > 1 {
		note += fmt.Sprintf("; it drained one %dth of the backlog", share)
	}
	return contender{name: name, note: note, share: share, fill: p.fill, peer: key, job: job{Role: "peer", Peer: key, Workers: workers}}
}

// peersFor returns the peers that are compared on a kind of destination. With a slow network
// those that send one message at once get an even smaller backlog.
func peersFor(kind string, slow int) []contender {
	switch kind {
	case toNothing:
		return []contender{
			riverPeer.contender("river, 1,000 workers", "river", 1000, 4),
			guePeer.contender("gue, 16 workers", "gue", 16, 20),
		}
	case toNATS:
		return []contender{
			riverPeer.contender("river, 100 workers", "river", 100, 4),
			riverPeer.contender("river, 300 workers", "river", 300, 4),
			riverPeer.contender("river, 1,000 workers", "river", 1000, 4),
			oagudoPeer.contender("oagudo/outbox", "oagudo", 0, 4*slow),
			watermillPeer.contender("watermill forwarder", "watermill", 0, 4*slow),
			guePeer.contender("gue, 16 workers", "gue", 16, 20),
		}
	case toRabbit:
		return []contender{
			oagudoPeer.contender("oagudo/outbox", "oagudo", 0, 20*slow/2),
			watermillPeer.contender("watermill forwarder", "watermill", 0, 20*slow/2),
		}
	}
	return nil
}

// besidePeers compares the relay with the best peer of each kind, repeat by repeat.
func besidePeers(kind string, list []contender, runs [][]drained) []row {
	best := func(keys ...string) (rates []float64) {
		for i, c := range list {
			for _, key := range keys {
				if r := column(runs[i], rate); c.peer == key && (rates == nil || median(r) > median(rates)) {
					rates = r
				}
			}
		}
		return rates
	}
	var times4, times8 *bound
	if kind == toNATS {
		times4, times8 = atLeast(4), atLeast(8)
	}
	relay := column(runs[1], rate)
	var rows []row
	for _, r := range []struct {
		name  string
		rates []float64
		want  *bound
	}{
		{"river, the best number of workers", best("river"), times4},
		{"the best outbox library", best("oagudo", "watermill"), times8},
	} {
		if r.rates != nil {
			rows = append(rows, row{table: "The relay to " + kind + ", compared with", name: r.name, figures: []figure{
				{"times as fast", "", quotients(relay, r.rates), r.want},
			}})
		}
	}
	return rows
}
