package signalrbroker_test

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/waybill-go/waybill/broker/signalrbroker"
	"github.com/waybill-go/waybill/consumer"
	"github.com/waybill-go/waybill/contract"
	"github.com/waybill-go/waybill/push"
)

// session is what your own sign-in knows of whoever sends a request.
type session struct {
	User  string
	Teams []string
	Ends  time.Time
}

func sessionOf(*http.Request) (session, error) { return session{}, push.ErrUnauthenticated }

// Tx is the transaction of your store.
type Tx struct{}

// A process that pushes the topic "orders" to SignalR clients. It receives them by whichever broker
// there is, under a group of its own.
func Example() {
	run := func(ctx context.Context, broker consumer.Broker, box contract.Inbox[*Tx]) error {
		hub, err := push.New(push.Config{Authorize: func(r *http.Request) (push.Grant, error) {
			s, err := sessionOf(r) // who may see what: the part that is no setting
			return push.Grant{User: s.User, Groups: s.Teams, Topics: []string{"orders"}, Expires: s.Ends}, err
		}})
		if err != nil {
			return err
		}
		endpoint, err := signalrbroker.New(ctx, hub, signalrbroker.Config{Path: "/push"})
		if err != nil {
			return err
		}
		http.Handle("/push", endpoint)
		http.Handle("/push/", endpoint)

		own := "push-" + os.Getenv("POD_NAME")
		c, err := consumer.New(broker, consumer.Subscription{Group: own, Topics: []string{"orders"}}, box,
			push.Handler[*Tx](hub), consumer.Config{})
		if err != nil {
			return err
		}
		return c.Run(ctx)
	}
	_ = run
}
