package rabbitbroker

import amqp "github.com/rabbitmq/amqp091-go"

// declarer declares on its own channel, and on another one after a refusal, because the server
// closes the channel of a refused declaration. It is not safe for concurrent use.
type declarer struct {
	conn    *conn
	channel *amqp.Channel // nil until it is needed
}

// on runs a call on the channel.
func (d *declarer) on(call func(*amqp.Channel) error) (err error) {
	if d.channel == nil || d.channel.IsClosed() {
		if d.channel, err = d.conn.Channel(); err != nil {
			return err
		}
	}
	return call(d.channel)
}

// declare declares parts in their order, and returns the arguments of each queue by its name.
func (d *declarer) declare(parts []part) (queues map[string]amqp.Table, err error) {
	queues = make(map[string]amqp.Table)
	for _, p := range parts {
		args, err := p.declare(d)
		if err != nil {
			return nil, err
		}
		if p.kind == queuePart {
			queues[p.name] = args
		}
	}
	return queues, nil
}

// close ends the channel.
func (d *declarer) close() {
	if d.channel != nil {
		_ = d.channel.Close() // closed in any case
	}
}
