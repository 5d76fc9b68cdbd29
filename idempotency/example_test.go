package idempotency_test

import (
	"log"
	"net/http"

	"github.com/waybill-go/waybill/idempotency"
	"github.com/waybill-go/waybill/inbox/lease"
)

// The leases and the responses are in one store here, such as redisstore has it:
//
//	store, err := redisstore.New(client, redisstore.Config{})
//	guarded, err := guardPayments(store, payments)
func ExampleNew() {
	type store interface {
		lease.Store
		idempotency.Responses
	}
	guardPayments := func(s store, payments http.Handler) (http.Handler, error) {
		guard, err := idempotency.New(s, s, idempotency.Config{
			Tenant: func(r *http.Request) string {
				user, _, _ := r.BasicAuth() // checked by what stands before this handler
				return user
			},
		})
		if err != nil {
			return nil, err
		}
		return guard(payments), nil
	}

	var s store
	guarded, err := guardPayments(s, http.NotFoundHandler())
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/payments", guarded)
}
