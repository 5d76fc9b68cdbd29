package rabbitbroker

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		product, text any
		want          version
	}{
		{"RabbitMQ", "3.10.8", version{3, 10}},
		{"RabbitMQ", "4.0.0-rc.1", version{4, 0}},
		{"RabbitMQ", "3.8+1.g5", version{}},
		{"RabbitMQ", "4", version{}},
		{"RabbitMQ", "", version{}},
		{"RabbitMQ", nil, version{}},
		{"LavinMQ", "2.1.0", version{}},
	} {
		if got := versionOf(amqp.Table{"product": test.product, "version": test.text}); got != test.want {
			t.Errorf("versionOf(%v %v) = %v, want %v", test.product, test.text, got, test.want)
		}
	}
	for _, test := range []struct {
		v, other version
		want     bool
	}{
		{version{3, 8}, version{3, 8}, true}, {version{3, 10}, version{3, 8}, true}, {version{4, 0}, version{3, 10}, true},
		{version{3, 7}, version{3, 8}, false}, {version{3, 13}, version{4, 0}, false}, {version{}, version{3, 8}, false},
	} {
		if got := test.v.atLeast(test.other); got != test.want {
			t.Errorf("%v.atLeast(%v) = %v, want %v", test.v, test.other, got, test.want)
		}
	}
}

// types returns the queue types of ways, with a + for each that lifts the delivery limit.
func types(ways []amqp.Table) []string {
	var list []string
	for _, args := range ways {
		name := args["x-queue-type"].(string)
		if args["x-delivery-limit"] == noDeliveryLimit {
			name += "+"
		}
		list = append(list, name)
	}
	return list
}

func TestQueueWays(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queueType string
		server    version
		want      []string
	}{
		{"", version{3, 7}, []string{"classic"}},
		{"", version{}, []string{"classic"}},
		{"", version{3, 8}, []string{"quorum+", "quorum", "classic"}},
		{"", version{4, 1}, []string{"quorum+", "quorum", "classic"}},
		{QuorumQueue, version{4, 1}, []string{"quorum+", "quorum"}},
		{ClassicQueue, version{4, 1}, []string{"classic"}},
	} {
		top := topology{queueType: test.queueType, server: test.server, singleActive: true}
		if got := types(top.queueWays()); !slices.Equal(got, test.want) {
			t.Errorf("%q on %v: %v, want %v", test.queueType, test.server, got, test.want)
		}
		for _, args := range top.queueWays() {
			if args["x-single-active-consumer"] != true {
				t.Errorf("%q on %v: %v lacks the single active consumer", test.queueType, test.server, args)
			}
		}
	}
}

func TestRetryPart(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		queueType string
		server    version
		queue     string
		want      []string
	}{
		{"", version{3, 10}, QuorumQueue, []string{"quorum", "classic"}},
		{"", version{3, 10}, "", []string{"quorum", "classic"}},
		{"", version{3, 10}, ClassicQueue, []string{"classic", "quorum"}},
		{"", version{3, 9}, QuorumQueue, []string{"classic"}},
		{QuorumQueue, version{3, 10}, QuorumQueue, []string{"quorum"}},
		{ClassicQueue, version{3, 10}, ClassicQueue, []string{"classic"}},
	} {
		top := topology{queueType: test.queueType, server: test.server}
		if got := types(top.retryPart("q", test.queue, time.Second).ways); !slices.Equal(got, test.want) {
			t.Errorf("%q on %v of a queue that is %q: %v, want %v", test.queueType, test.server, test.queue, got, test.want)
		}
	}
	for _, ttl := range ladder {
		for _, args := range (topology{server: version{3, 10}}).retryPart("q", "", ttl).ways {
			expires := time.Duration(args["x-expires"].(int64)) * time.Millisecond
			if expires < ttl+100*retryTimeout {
				t.Errorf("a queue with messages of %v expires after %v", ttl, expires)
			}
		}
	}
}

func TestRefusedArgument(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q'"), ""}, // not the server's
		{&amqp.Error{Code: 404, Server: true, Reason: "NOT_FOUND - no queue 'inequivalent arg 'x'' in vhost '/'"}, ""},
		{&amqp.Error{Code: 406, Server: true, Reason: "PRECONDITION_FAILED - unknown delivery tag 1"}, ""},
		{&amqp.Error{Code: 406, Server: true, Reason: "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'arg 'y'' in vhost '/': received 'quorum' but current is 'classic'"}, "x-queue-type"},
		{&amqp.Error{Code: 406, Server: true, Reason: "PRECONDITION_FAILED - invalid arg 'x-message-ttl' for queue 'q' in vhost '/'"}, "x-message-ttl"},
	} {
		err := test.err
		if err != nil {
			err = fmt.Errorf("declare: %w", err)
		}
		if got := refusedArgument(err); got != test.want {
			t.Errorf("refusedArgument(%v) = %q, want %q", err, got, test.want)
		}
	}
}

func TestRemark(t *testing.T) {
	t.Parallel()
	unlimited := amqp.Table{"x-queue-type": QuorumQueue, "x-delivery-limit": noDeliveryLimit}
	quorum, classic := amqp.Table{"x-queue-type": QuorumQueue}, amqp.Table{"x-queue-type": ClassicQueue}
	for _, test := range []struct {
		queueType string
		server    version
		made      amqp.Table
		remarked  bool
	}{
		{"", version{4, 0}, unlimited, false},
		{"", version{4, 0}, quorum, true},
		{"", version{3, 13}, quorum, false}, // which has no limit by default
		{"", version{3, 13}, classic, true},
		{"", version{3, 7}, classic, false},
		{ClassicQueue, version{4, 0}, classic, false},
	} {
		if got := (topology{queueType: test.queueType, server: test.server}).remark(test.made); (got != "") != test.remarked {
			t.Errorf("%q on %v of %v: remark %q, want one: %v", test.queueType, test.server, test.made, got, test.remarked)
		}
	}
}
